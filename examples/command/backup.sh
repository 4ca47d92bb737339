#!/bin/sh
# Packs one folder. Called by scheduld, see scheduld.toml.
set -eu
folder=$SCHEDULD_PAYLOAD_FOLDER
mkdir -p "$BACKUPS"
# The same name at every attempt of the task: a run that comes twice leaves one file.
file=$BACKUPS/$(basename "$folder")-$SCHEDULD_ID.tar
tar --exclude=./backups -C "$folder" -cf "$file.part" .
mv "$file.part" "$file"
echo "attempt $SCHEDULD_ATTEMPT, due $SCHEDULD_DUE: packed into $file"
