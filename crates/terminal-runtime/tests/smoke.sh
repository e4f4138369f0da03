#!/bin/bash
# test-trl.sh: a quick smoke test of a runtime over its socket.

SOCK="${SOCK:-/tmp/trl-test.sock}"

# Start runtime in background
"${TERMINAL_RUNTIME:-terminal-runtime}" --socket "$SOCK" &
TRL_PID=$!
sleep 1

send() { echo "$1" | socat - UNIX-CONNECT:"$SOCK"; }

# Ping
send '{"id":"1","method":"system.ping","params":{}}'

# Create session
created=$(send '{"id":"2","method":"session.create","params":{"shell":"/bin/bash"}}')
echo "$created"
session=$(grep -o 's-[0-9a-f]\{8\}' <<<"$created")

# Run command
send '{"id":"3","method":"exec.run","params":{"session_id":"'"$session"'","command":"echo hello"}}'

# List sessions
send '{"id":"4","method":"session.list","params":{}}'

# Cleanup
send '{"id":"5","method":"session.destroy","params":{"session_id":"'"$session"'"}}'

kill $TRL_PID
wait $TRL_PID
status=$?
rm -f "$SOCK"
exit $status
