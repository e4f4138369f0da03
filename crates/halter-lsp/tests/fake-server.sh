#!/bin/sh
# A language server in a few lines, for tests. $1 says how it behaves:
#   good      answers, and finds an error in every file that says "broken"
#   late      says without a version what it found: nothing of a file that it is
#             shown first, of a changed one what was wrong before, and what is
#             now when it is asked for references
#   old       as good, but all it says is of the version 1
#   quiet     answers, and says nothing of files
#   hanging   reads and never answers
#   crashing  says why and ends at once
#   stubborn  as good, but ends only by force
#   clinging  as quiet, but does not end with its input
kind=$1
cr=$(printf '\r')
[ "$kind" = stubborn ] && trap '' TERM

say() {
  printf 'Content-Length: %s\r\n\r\n%s' "$(printf %s "$1" | wc -c)" "$1"
}

field() {
  printf %s "$body" | sed -n "s/.*\"$1\":\"*\\([^\",}]*\\).*/\\1/p"
}

if [ "$kind" = crashing ]; then
  echo "no license found" >&2
  exit 1
fi
while :; do
  length=
  while IFS= read -r line; do
    line=${line%"$cr"}
    [ -n "$line" ] || break
    case $line in Content-Length:*) length=${line#*: } ;; esac
  done
  if [ -z "$length" ]; then
    case $kind in stubborn | clinging) while :; do sleep 1; done ;; esac
    exit 0
  fi
  body=$(head -c "$length")
  [ "$kind" = hanging ] && continue
  id=$(printf %s "$body" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  uri=$(field uri)
  at='"range":{"start":{"line":0,"character":2},"end":{"line":0,"character":4}}'
  case $body in
    *'"method":"initialize"'*)
      say '{"jsonrpc":"2.0","id":90,"method":"workspace/configuration","params":{"items":[{"section":"demo.level"}]}}'
      say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"capabilities\":{\"positionEncoding\":\"utf-8\"}}}" ;;
    *'"method":"textDocument/didOpen"'* | *'"method":"textDocument/didChange"'*)
      case $kind in quiet | clinging) continue ;; esac
      if [ "$kind" = late ]; then
        case $body in *didOpen*) continue ;; esac
        say "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":\"$uri\",\"diagnostics\":[{$at,\"message\":\"it was broken\"}]}}"
        continue
      fi
      version=$(field version)
      [ "$kind" = old ] && version=1
      found=
      case $body in *broken*) found="{$at,\"severity\":1,\"message\":\"it is broken\",\"code\":\"E1\"}" ;; esac
      say "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":\"$uri\",\"version\":$version,\"diagnostics\":[$found]}}" ;;
    *'"method":"textDocument/didClose"'*) echo "closed $uri" >&2 ;;
    *'"method":"textDocument/definition"'*)
      say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"uri\":\"$uri\",$at}}" ;;
    *'"method":"textDocument/references"'*)
      [ "$kind" = late ] && say "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/publishDiagnostics\",\"params\":{\"uri\":\"$uri\",\"diagnostics\":[]}}"
      say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":[{\"uri\":\"$uri\",$at},{\"uri\":\"$uri\",$at}]}" ;;
    *'"method":"shutdown"'*) [ "$kind" = stubborn ] || say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":null}" ;;
    *'"method":"exit"'*) [ "$kind" = stubborn ] || exit 0 ;;
  esac
done
