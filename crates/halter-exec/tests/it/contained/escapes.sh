# Attempts to get out of containment, one per line: a name, a tab, a script.
# An attempt that works prints ESCAPED. $WORK may be written to; $OUT may not,
# $OUT/secret is hidden, $WORK/.git/config and .git/hooks are protected, as are
# .absent/file, .agents, .devcontainer and .editor, which are not there, and what else git runs programs
# from, of which .git/commondir is not there. The addresses outside are those of
# the test's own network. `call N args` makes a system call, which must be
# refused as such: that it fails because of its arguments is not enough.
write-beside-the-workspace	echo x > $OUT/new && echo ESCAPED
write-an-existing-file	echo x >> $OUT/file && echo ESCAPED
truncate-a-file	truncate -s 0 $OUT/file && echo ESCAPED
truncate-by-reading	perl -e 'use Fcntl; sysopen(F, "$ENV{OUT}/file", O_RDONLY|O_TRUNC) && print "ESCAPED"'
remove-a-file	rm -f $OUT/file && echo ESCAPED
rename-into	touch $WORK/r && mv $WORK/r $OUT/r && echo ESCAPED
rename-the-workspace	mv $WORK $WORK-gone && echo ESCAPED
link-and-write	ln -sf $OUT/file $WORK/link && echo x > $WORK/link && echo ESCAPED
hard-link-out	ln $WORK/../outside/file $WORK/hard && echo ESCAPED
hard-link-in	touch $WORK/h && ln $WORK/h $OUT/h && echo ESCAPED
change-mode	chmod 777 $OUT/file && echo ESCAPED
change-owner	chown 1:1 $OUT/file && echo ESCAPED
change-times	touch -d 2001-01-01 $OUT/file && echo ESCAPED
change-attributes	call 188 $OUT/file user.x y 1 0
make-a-device	mknod $WORK/disk b 8 0 && echo ESCAPED
make-a-memory-device	mknod $WORK/mem c 1 1 && head -c 1 $WORK/mem && echo ESCAPED
write-etc	echo x >> /etc/passwd && echo ESCAPED
write-usr	touch /usr/bin/halter-escaped && echo ESCAPED
write-home	touch ~/.halter-escaped && echo ESCAPED
write-root	touch /halter-escaped && echo ESCAPED
write-run	touch /run/halter-escaped && echo ESCAPED
write-sys	echo 1 > /sys/kernel/mm/ksm/run && echo ESCAPED
write-core-pattern	echo '|/bin/true' > /proc/sys/kernel/core_pattern && echo ESCAPED
write-sysctl	echo 1 > /proc/sys/kernel/sysrq && echo ESCAPED
write-sysrq	echo h > /proc/sysrq-trigger && echo ESCAPED
write-cgroup	for all in /sys/fs/cgroup /sys/fs/cgroup/unified; do mkdir $all/halter-escaped && echo ESCAPED; done
read-hidden	cat $OUT/secret/key && echo ESCAPED
list-hidden	ls $OUT/secret/ && echo ESCAPED
open-up-hidden	chmod 755 $OUT/secret && cat $OUT/secret/key && echo ESCAPED
read-hidden-by-link	ln -sf $OUT/secret/key $WORK/k && cat $WORK/k && echo ESCAPED
read-hidden-by-proc	cat /proc/self/root$OUT/secret/key && echo ESCAPED
read-hidden-by-cwd	cd $OUT/secret && cat key && echo ESCAPED
read-disk	dd if=/dev/vda of=/dev/null bs=1 count=1 || dd if=/dev/sda of=/dev/null bs=1 count=1 && echo ESCAPED
read-kernel-log	dd if=/dev/kmsg of=/dev/null bs=8192 count=1 && echo ESCAPED
read-kernel-log-by-call	call 103 3 0 0
change-git-config	echo x >> $WORK/.git/config && echo ESCAPED
replace-git-config	echo x > $WORK/c && mv -f $WORK/c $WORK/.git/config && echo ESCAPED
remove-git-config	rm -f $WORK/.git/config && echo ESCAPED
move-git-away	mv $WORK/.git $WORK/.git2 && echo x >> $WORK/.git2/config && echo ESCAPED
add-hook	mkdir -p $WORK/.git/hooks && echo x > $WORK/.git/hooks/pre-commit && echo ESCAPED
remove-hooks	rmdir $WORK/.git/hooks && echo ESCAPED
replace-hooks-by-link	rm -rf $WORK/.git/hooks; ln -sfn /tmp $WORK/.git/hooks && [ -L $WORK/.git/hooks ] && echo ESCAPED
make-commondir	mkdir -p $WORK/evil && echo ../evil > $WORK/.git/commondir && echo ESCAPED
replace-commondir	echo ../evil > $WORK/c && mv -f $WORK/c $WORK/.git/commondir && echo ESCAPED
remove-commondir	rm -f $WORK/.git/commondir && echo ESCAPED
make-worktree-config	echo x > $WORK/.git/config.worktree && echo ESCAPED
change-submodule-config	echo x >> $WORK/.git/modules/m/config && echo ESCAPED
add-submodule-hook	mkdir -p $WORK/.git/modules/m/hooks && echo x > $WORK/.git/modules/m/hooks/post-checkout && echo ESCAPED
move-submodule-away	mv $WORK/.git/modules $WORK/.git/n && echo ESCAPED
redirect-linked-work-tree	echo $WORK/evil > $WORK/.git/worktrees/w/commondir && echo ESCAPED
apply-a-hook	printf -- "$HOOK_PATCH" | git apply --unsafe-paths --directory=$WORK/.git; [ -e $WORK/.git/hooks/post-checkout ] && echo ESCAPED
apply-to-home	cd /; printf -- "$HOOK_PATCH" | git apply --unsafe-paths --directory=$HOME; [ -e $HOME/hooks ] && echo ESCAPED
search-for-keys	{ rg -uuu -a s3cret $OUT || grep -ra s3cret $OUT; } && echo ESCAPED
search-environments	{ rg -a HALTER_TEST_OWN_NETWORK /proc/[0-9]*/environ || grep -a HALTER_TEST_OWN_NETWORK /proc/[0-9]*/environ; } && echo ESCAPED
ask-a-git-server	git ls-remote git://192.0.2.1/x && echo ESCAPED
make-absent-file	mkdir -p $WORK/.absent && echo x > $WORK/.absent/file && echo ESCAPED
make-absent-directory	mkdir -p $WORK/.editor && echo x > $WORK/.editor/settings && echo ESCAPED
make-absent-skill	mkdir -p $WORK/.agents/skills/x && echo x > $WORK/.agents/skills/x/SKILL.md && echo ESCAPED
link-in-place-of-absent	mkdir $WORK/d && ln -sT $WORK/d $WORK/.devcontainer && echo ESCAPED
move-onto-absent	mkdir $WORK/e && mv -T $WORK/e $WORK/.editor && echo ESCAPED
ptrace-parent	call 101 16 $OUTER_PID 0 0
ptrace-first	call 101 16 1 0 0
read-memory-of-first	call 310 1 0 0 0 0 0
trace-a-child	sleep 9 & call 101 16 $! 0 0; kill $!
write-memory-of-first	exec 3<>/proc/1/mem && echo ESCAPED
see-outer-process	kill -0 $OUTER_PID && echo ESCAPED
read-outer-environment	cat /proc/$OUTER_PID/environ && echo ESCAPED
kill-first	kill -9 1; sleep 0.05; [ -d /proc/1 ] || echo ESCAPED
take-a-descriptor	call 438 3 0 0
unshare-user	unshare --user true && echo ESCAPED
unshare-mounts	unshare --mount true && echo ESCAPED
unshare-by-call	call 272 0x10000000
clone-user-namespace	call 56 0x10000011 0 0 0 0
clone-mount-namespace	call 56 0x20011 0 0 0 0
clone3	call 435 0 0
join-namespace	nsenter --target 1 --mount true && echo ESCAPED
mount-tmpfs	mount -t tmpfs none $WORK && echo ESCAPED
remount-writable	mount -o remount,rw / && echo ESCAPED
unmount-protection	umount $WORK/.git/config && echo ESCAPED
unmount-hidden	umount -l $OUT/secret && echo ESCAPED
bind-mount	mount --bind $OUT $WORK && echo ESCAPED
new-mount-call	call 430 0 0
open-tree	call 428 -100 0 1
change-root	chroot / true && echo ESCAPED
pivot-root	call 155 0 0
io-uring	call 425 1 0
kernel-keys	call 250 0 -3 0 0 0
add-key	call 248 0 0 0 0 -3
bpf	call 321 0 0 0
perf-events	call 298 0 0 -1 -1 0
userfault	call 323 0
load-module	call 175 0 0 0
reboot	call 169 0xfee1dead 0x28121969 0 0
set-clock	date -s 2001-01-01 && echo ESCAPED
set-host-name	hostname halter-escaped && echo ESCAPED
raw-socket	perl -e 'use Socket; socket(S, PF_INET, SOCK_RAW, 1) && print "ESCAPED"'
packet-socket	call 41 17 3 0x300
vsock	call 41 40 1 0
crypto-socket	call 41 38 5 0
audit-channel	call 41 16 3 9
abstract-socket	perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, pack("Sa*", 1, "\0$ENV{ABSTRACT}")) && print "ESCAPED"'
outer-loopback	perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in($ENV{OUTER_PORT}, INADDR_LOOPBACK)) && print "ESCAPED"'
metadata-address	perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(80, inet_aton("169.254.169.254"))) && print "ESCAPED"'
send-a-datagram	perl -e 'use Socket; socket(S, PF_INET, SOCK_DGRAM, 0); send(S, "x", 0, sockaddr_in(53, inet_aton("192.0.2.1"))) && print "ESCAPED"'
add-an-address	ip addr add 192.0.2.1/24 dev lo && echo ESCAPED
# A process inside may have the same number: only the test's own program counts.
outer-descriptors	ls /proc/$OUTER_PID/fd && case $(readlink /proc/$OUTER_PID/exe) in */it-*) echo ESCAPED ;; esac
terminal-input	call 16 0 0x5412 x
terminal-input-wide	call 16 0 0x100005412 x
outer-terminals	ls /dev/pts | grep -q '^[0-9]' && echo ESCAPED
setuid-program	[ -n "$(find /usr/bin -perm -4000 -exec true {} + -quit)" ] && su -c true </dev/null && echo ESCAPED
gain-capability	grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED
new-privileges	grep -q 'NoNewPrivs:.*0' /proc/self/status && echo ESCAPED
raise-priority	nice -n -5 true 2>&1 | grep -q cannot || echo ESCAPED
raise-limit	ulimit -Hn 99999999 && echo ESCAPED
leave-shared-memory	echo x > /dev/shm/$ABSTRACT
same-ipc-namespace	[ "$(readlink /proc/self/ns/ipc)" = "$OUTER_IPC" ] && echo ESCAPED
outer-temporary-files	[ -e $SEEN ] && echo ESCAPED
32-bit-call	perl -e 'syscall(0x40000000 + 101, 0, 0, 0, 0) == 0 && print "ESCAPED"'
