//! Who belongs to a tree, computed from one look at all processes.

use std::collections::{HashMap, HashSet};

use super::{Look, Member, Spared};
use crate::sys::stat::{EnvironmentLook, KERNEL_THREADS, Stat};

/// Living members of the tree: the leader's session and group, everything
/// that carries the mark or was found before, and everything that descends
/// from those; and whether there is a process that may yet turn out to be one.
pub(super) fn tree_members(
    all: &[Stat],
    leader: Member,
    found: &HashSet<(i32, u64)>,
    mark: impl Fn(i32) -> EnvironmentLook,
) -> Look {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut unclear = false;
    let mut belongs = |stat: &Stat| {
        if [stat.pid, stat.session, stat.group].contains(&leader.pid)
            || found.contains(&(stat.pid, stat.start_time))
        {
            return true;
        }
        if stat.is_dead() || stat.parent == KERNEL_THREADS {
            return false;
        }
        let look = mark(stat.pid);
        unclear |= look == EnvironmentLook::Unclear;
        look == EnvironmentLook::Has
    };
    let roots: Vec<i32> = all
        .iter()
        .filter(|stat| stat.pid != own && stat.start_time >= leader.start_time)
        .filter(|stat| belongs(stat))
        .map(|stat| stat.pid)
        .collect();
    let members = closure(all, roots)
        .into_iter()
        .filter(|stat| stat.pid != own && !stat.is_dead())
        .map(Member::from)
        .collect();
    Look { members, unclear }
}

/// The processes below these, and these themselves.
pub(super) fn closure(all: &[Stat], roots: impl IntoIterator<Item = i32>) -> Vec<&Stat> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat.pid);
    }
    let mut found: HashSet<i32> = HashSet::new();
    let mut open: Vec<i32> = roots.into_iter().collect();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    all.iter()
        .filter(|stat| found.contains(&stat.pid))
        .collect()
}

/// Takes out of the list what is spared: the leader alone, and the earlier
/// members with what descends from them through other members.
pub(super) fn without(members: Vec<Member>, leader: Member, spared: &Spared) -> Vec<Member> {
    if !spared.leader && spared.earlier.is_empty() {
        return members;
    }
    let by_pid: HashMap<i32, Member> = members.iter().map(|one| (one.pid, *one)).collect();
    let descends_from_earlier = |member: &Member| {
        let mut seen = HashSet::new();
        let mut current = Some(*member);
        while let Some(one) = current {
            if spared.earlier.contains(&(one.pid, one.start_time)) {
                return true;
            }
            current = seen
                .insert(one.pid)
                .then(|| by_pid.get(&one.parent).copied())
                .flatten();
        }
        false
    };
    members
        .iter()
        .filter(|member| !(spared.leader && member.pid == leader.pid))
        .filter(|member| !descends_from_earlier(member))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32, session: i32) -> Stat {
        Stat {
            pid,
            name: "x".to_owned(),
            state: 'S',
            parent,
            group: session,
            session,
            start_time: 100,
        }
    }

    fn member(pid: i32, parent: i32) -> Member {
        Member {
            pid,
            parent,
            start_time: 100,
        }
    }

    fn pids(members: &[Member]) -> Vec<i32> {
        members.iter().map(|member| member.pid).collect()
    }

    #[test]
    fn a_tree_is_session_marks_and_descendants() {
        let all = [
            stat(900_001, 1, 900_001),
            stat(900_002, 900_001, 900_001),
            // Its own session, but the parent link holds.
            stat(900_003, 900_002, 900_003),
            // Double-forked: only the session is left.
            stat(900_004, 1, 900_001),
            // Double-forked into its own session: only the mark is left.
            stat(900_005, 1, 900_005),
            stat(900_006, 900_005, 900_006),
            stat(900_007, 1, 900_007),
        ];
        let found = tree_members(&all, member(900_001, 1), &HashSet::new(), |pid| match pid {
            900_005 => EnvironmentLook::Has,
            _ => EnvironmentLook::Lacks,
        });
        assert_eq!(
            pids(&found.members),
            [900_001, 900_002, 900_003, 900_004, 900_005, 900_006]
        );
        assert!(!found.unclear);
        let found = tree_members(&all, member(900_001, 1), &HashSet::new(), |_| {
            EnvironmentLook::Unclear
        });
        assert!(found.unclear);
    }

    #[test]
    fn a_member_that_was_found_stays_one_when_its_parent_ends() {
        let all = [
            stat(900_001, 1, 900_001),
            stat(900_002, 1, 900_002),
            stat(900_003, 900_002, 900_003),
            stat(900_004, 1, 900_004),
        ];
        // The last one's number belonged to another when it was found.
        let before = HashSet::from([(900_002, 100), (900_004, 99)]);
        let lacks = |_| EnvironmentLook::Lacks;
        let found = tree_members(&all, member(900_001, 1), &before, lacks);
        assert_eq!(pids(&found.members), [900_001, 900_002, 900_003]);
    }

    #[test]
    fn zombies_and_processes_older_than_the_leader_are_no_members() {
        let mut zombie = stat(900_002, 900_001, 900_001);
        zombie.state = 'Z';
        let mut older = stat(900_003, 1, 900_001);
        older.start_time = 99;
        let all = [stat(900_001, 1, 900_001), zombie, older];
        let found = tree_members(&all, member(900_001, 1), &HashSet::new(), |_| {
            EnvironmentLook::Lacks
        });
        assert_eq!(pids(&found.members), [900_001]);
    }

    #[test]
    fn the_leader_is_spared_alone_and_earlier_members_with_their_children() {
        let members = vec![
            member(10, 1),
            member(11, 10),
            member(12, 10),
            member(13, 12),
            member(14, 1),
        ];
        let spared = Spared {
            leader: true,
            earlier: HashSet::from([(12, 100)]),
        };
        let left = without(members, member(10, 1), &spared);
        assert_eq!(pids(&left), [11, 14]);
    }
}
