"""The parts of the script that are the same for every plan, in bash."""

HEAD = """\
set -euo pipefail
# A Java tool reads the names it is given in the encoding of the locale.
export LC_ALL=C.UTF-8
umask 077
"""

TOOLS = """\
SOURCE=${SOURCE:-$source_bootstrap}
TARGET=${TARGET:-$target_bootstrap}
source_login=()
if [[ -n ${SOURCE_CONFIG:-} ]]; then source_login=(--command-config "$SOURCE_CONFIG"); fi
target_login=()
if [[ -n ${TARGET_CONFIG:-} ]]; then target_login=(--command-config "$TARGET_CONFIG"); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '%s\\n' "$@"; }

tool() {
  local name=$1
  shift
  "${KAFKA_BIN:+$KAFKA_BIN/}$name" "$@"
}

target_groups() {
  tool kafka-consumer-groups.sh --bootstrap-server "$TARGET" \\
    ${target_login[@]+"${target_login[@]}"} "$@"
}

source_acls() {
  tool kafka-acls.sh --bootstrap-server "$SOURCE" \\
    ${source_login[@]+"${source_login[@]}"} "$@"
}
"""

GROUPS = """\
# Each takes a group, then its places: topic,partition,offset.

show_group() {
  local group=$1
  shift
  printf 'Group %q would stand at:\\n' "$group"
  say "$@"
  say "$@" > "$work/places.csv"
  target_groups --group="$group" --reset-offsets --from-file "$work/places.csv" --dry-run
}

set_group() {
  local group=$1
  shift
  say "$@" > "$work/places.csv"
  target_groups --group="$group" --reset-offsets --from-file "$work/places.csv" --execute
  verify_group "$group" "$@"
}

# Kafka's tool ends well also where a group has members and nothing was set, so it is read back.
verify_group() {
  local group=$1
  shift
  say "$@" | tr -d '"' | sort > "$work/wanted"
  target_groups --group="$group" --reset-offsets --to-current --all-topics --dry-run --export \\
    > "$work/answer"
  tr -d '"\\r' < "$work/answer" | sort > "$work/found"
  if [[ -n $(comm -23 "$work/wanted" "$work/found") ]]; then
    printf 'Group %q does not stand there:\\n' "$group" >&2
    comm -23 "$work/wanted" "$work/found" >&2
    say "Is it still consuming on the target? Stop its members and run this again." \\
      "The tool said:" >&2
    cat "$work/answer" >&2
    return 1
  fi
  printf 'Group %q stands at its %d places.\\n' "$group" "$#"
}
"""

FENCE = """\
deny() {
  local verb=$1 topic words=()
  shift
  for topic in "$@"; do words+=("--topic=$topic"); done
  source_acls "$verb" --deny-principal 'User:*' --operation Write \\
    --resource-pattern-type literal --force "${words[@]}"
}
"""

MAIN = """\
usage() {
  say "bash $0 check    what would be done; nothing is changed" \\
    "bash $0 fence    nobody may write the copied topics of the source any more (needs ACLs)" \\
    "bash $0 groups   put each group at its place on the target and read it back" \\
    "bash $0 verify   read back only" \\
    "bash $0 clients  what each client changes" \\
    "bash $0 unfence  take the fence away again" \\
    "" \\
    "KAFKA_BIN: the directory of Kafka's tools. SOURCE, TARGET: other addresses." \\
    "SOURCE_CONFIG, TARGET_CONFIG: files with the settings that log in (--command-config)." \\
    "ACCEPT_MISSING=yes: go on although some groups have no place; they are named by check."
}

case ${1:-} in
  check)
    findings
    each_group show_group
    ;;
  fence) each_topic --add ;;
  unfence) each_topic --remove ;;
  groups)
    if [[ $missing -gt 0 && ${ACCEPT_MISSING:-} != yes ]]; then
      findings
      say "Nothing was changed: $missing places have no offset. ACCEPT_MISSING=yes goes on." >&2
      exit 1
    fi
    each_group set_group
    ;;
  verify) each_group verify_group ;;
  clients) clients ;;
  *)
    usage
    exit 64
    ;;
esac
"""
