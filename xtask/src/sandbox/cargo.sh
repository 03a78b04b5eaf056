#!/bin/bash
# Stands for cargo, whose work is done already: the program that documents build is the one that runs.
set -eu
case "$*" in
    "build --release")
        mkdir -p target/release
        ln -sf "$SANDBOX/bin/plimsoll" target/release/plimsoll
        ;;
    "run --release -- "*)
        shift 3
        exec plimsoll "$@"
        ;;
    *)
        echo "only \`cargo build --release\` and \`cargo run --release -- …\` are known here, not: cargo $*"
        exit 1
        ;;
esac
