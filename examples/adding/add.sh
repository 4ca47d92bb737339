#!/bin/sh
# Adding a task with plain Redis commands: ./add.sh redis-cli [OPTION...]
# docs/wire-format.md says what each line means.
set -eu
id=from-the-shell-$$
due_ms=$(($(date +%s) * 1000 + 1000))

"$@" HSET "scheduld:{hello}:task:$id" payload '{"message": "added with redis-cli"}'
"$@" ZADD 'scheduld:{hello}:due' "$due_ms" "$id"
"$@" PUBLISH scheduld:wake "hello $due_ms"
echo "hello/$id"
