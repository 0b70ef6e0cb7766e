"""A stored plan as a shell script: the fence, group offsets, reading back, what clients change.

Invariants:
A. No text of the plan is executed: each is one quoted word, or in a comment without a line end.
B. The offsets of a group are set in one call from a file, and read back before the next group.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


def fits_command_line(text: str) -> bool:
    """Return whether a command line can contain the text: no NUL and no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def word(text: str) -> str:
    return shlex.quote(text)


def comment(text: str) -> str:
    """Return a comment line; no character in it can end the line."""
    return "# " + "".join(sign if sign.isprintable() else "?" for sign in text)


def csv_line(*fields: object) -> str:
    """Return one line of an offsets file as Kafka's tools read it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(fields)
    return out.getvalue()


def call(name: str, words: Iterable[str], *, indent: str = "  ") -> Iterator[str]:
    """Yield a function call with one word per line, so that a person can read and change it."""
    lines = [f"{indent}{name}", *(f"{indent}  {word(text)}" for text in words)]
    for line in lines[:-1]:
        yield f"{line} \\"
    yield lines[-1]


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
# Each function takes a group, then lines with topic,partition,offset.

show_group() {
  local group=$1
  shift
  printf 'Group %q would resume at:\\n' "$group"
  say "$@"
  say "$@" > "$work/offsets.csv"
  target_groups --group="$group" --reset-offsets --from-file "$work/offsets.csv" --dry-run
}

set_group() {
  local group=$1
  shift
  say "$@" > "$work/offsets.csv"
  target_groups --group="$group" --reset-offsets --from-file "$work/offsets.csv" --execute
  verify_group "$group" "$@"
}

# Kafka's tool exits with 0 even if a group has members and no offset was set, so read it back.
verify_group() {
  local group=$1
  shift
  say "$@" | tr -d '"' | sort > "$work/wanted"
  target_groups --group="$group" --reset-offsets --to-current --all-topics --dry-run --export \\
    > "$work/answer"
  tr -d '"\\r' < "$work/answer" | sort > "$work/found"
  if [[ -n $(comm -23 "$work/wanted" "$work/found") ]]; then
    printf 'Group %q does not have these offsets:\\n' "$group" >&2
    comm -23 "$work/wanted" "$work/found" >&2
    say "Is it still consuming on the target? Stop its members and run this again." \\
      "The output of Kafka's tool:" >&2
    cat "$work/answer" >&2
    return 1
  fi
  printf 'Group %q has its offsets in %d partitions.\\n' "$group" "$#"
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
  say "bash $0 check    shows what would be done, changes nothing" \\
    "bash $0 fence    denies Write on the replicated topics of the source (needs ACLs)" \\
    "bash $0 groups   sets the offsets of each group on the target and reads them back" \\
    "bash $0 verify   only reads them back" \\
    "bash $0 clients  shows what each client changes" \\
    "bash $0 unfence  removes the fence" \\
    "" \\
    "KAFKA_BIN: the directory of Kafka's tools. SOURCE, TARGET: other addresses." \\
    "SOURCE_CONFIG, TARGET_CONFIG: files with the client's settings (--command-config)." \\
    "ACCEPT_MISSING=yes: continue although some groups have no offset; check lists them."
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
      say "Nothing was changed: $missing group-partitions have no offset." \\
        "To continue, set ACCEPT_MISSING=yes." >&2
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


# A command line has an end; a thousand names of the longest kind are far below it.
TOPICS_A_CALL = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def failover_script(
    plan: Mapping[str, Any], *, title: str, source_bootstrap: str, target_bootstrap: str
) -> str:
    """Return the script. `plan` is a FailoverPlan as JSON; equal plans give equal scripts."""
    places, missing = _places(plan["places"])
    topics = sorted({row["topic"] for row in plan["partitions"] if fits_command_line(row["topic"])})
    lines = [
        "#!/usr/bin/env bash",
        *_comments(plan, title),
        HEAD,
        f"source_bootstrap={word(source_bootstrap)}",
        f"target_bootstrap={word(target_bootstrap)}",
        f"missing={len(missing)}",
        "",
        TOOLS,
        GROUPS,
        FENCE,
        *_function("each_group", _group_calls(places)),
        *_function("each_topic", _topic_calls(topics)),
        *_function("findings", _findings(plan, missing)),
        *_function("clients", _print_lines(change["sentence"] for change in plan["clients"])),
        MAIN,
    ]
    return "\n".join(lines)


def _comments(plan: Mapping[str, Any], title: str) -> Iterator[str]:
    taken = _EPOCH + timedelta(milliseconds=plan["taken_at"])
    for text in (
        f"Failover of {plan['flow']} with Kafka's own tools only. {title}",
        f"Planned {taken:%Y-%m-%d %H:%M:%S} UTC, plan {plan['digest']}.",
        "The offsets are those of that time: a group re-reads what it has consumed since.",
        "First stop the flow and the consumers on the source; then run fence, groups, clients.",
        *(row["sentence"] for row in plan.get("left_behind", ())),
    ):
        yield comment(text)


def _places(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, list[str]], list[Mapping[str, Any]]]:
    """Return the offsets lines by group, and the rows without a usable offset or name."""
    lines: dict[str, list[str]] = {}
    missing = []
    for row in rows:
        group, topic, offset = row["group"], row["remote_topic"], row["downstream_offset"]
        if offset is None or not (group and fits_command_line(group) and fits_command_line(topic)):
            missing.append(row)
        else:
            lines.setdefault(group, []).append(csv_line(topic, row["partition"], offset))
    return lines, missing


def _group_calls(places: Mapping[str, list[str]]) -> Iterator[str]:
    for group, lines in sorted(places.items()):
        yield from call('"$1"', [group, *lines])


def _topic_calls(topics: list[str]) -> Iterator[str]:
    for start in range(0, len(topics), TOPICS_A_CALL):
        yield from call('deny "$1"', topics[start : start + TOPICS_A_CALL])


def _findings(plan: Mapping[str, Any], missing: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    sentences = [f"Blocker: {row['where']}: {row['sentence']}" for row in plan["blockers"]]
    sentences += [f"Left behind: {row['sentence']}" for row in plan.get("left_behind", ())]
    sentences += [f"Warning: {row['where']}: {row['sentence']}" for row in plan["warnings"]]
    for row in missing:
        why = row["reason"] or "a command line cannot contain the name"
        place = f"{row['topic']}-{row['partition']}"
        sentences.append(f"No resume offset for {row['group']} in {place}: {why}")
    return _print_lines(sentences)


def _print_lines(sentences: Iterable[str]) -> Iterator[str]:
    said = [_shown(text) for text in sentences]
    return call("say", said) if said else iter(())


def _shown(text: str) -> str:
    """Replace control characters, which a terminal would execute."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _function(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{name}() {{"
    yield "  :"
    yield from lines
    yield "}"
    yield ""
