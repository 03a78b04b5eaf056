# Runs one script up to its first command that fails, with what the one before left: variables, functions, the directory.
set -eEa -o pipefail
if [ -e "$SANDBOX/left" ]; then
    . "$SANDBOX/left"
fi
trap 'echo "line $LINENO failed: $BASH_COMMAND"' ERR
trap '{ export -p; declare -f; umask -p; echo "cd $(printf %q "$PWD")"; } > "$SANDBOX/left"' EXIT
. "$1"
