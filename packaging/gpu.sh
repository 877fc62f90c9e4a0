#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu [--output PREFIX] [--emulated] [--quick] [--root FOLDER]: all that needs a GPU, in one run
# that nobody watches and that ends within ten minutes: conformance, the sanitizer, a ring and a
# training over chips of several backends, and figures beside cuBLASLt and PyTorch. It installs
# nothing; what is missing is left out with a line. Writes PREFIX.json and PREFIX.md (./gpu-DATE).
#
# In a bundle it is bin/gpu; FOLDER is the bundle's or a build's. --emulated: over the emulated
# driver; --quick: on sizes that measure nothing. Exit codes: 0, 1 when a step failed, 2 for a
# mistake in the command line. A target that is missed is no failure. $KEEL_BENCH_PYTHON is the
# interpreter that has PyTorch, where it is not PATH's python3.
set -uo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=gpu-$(date -u +%F)
emulated=
quick=
readonly deadline=535  # seconds, of all steps; the rest of ten minutes is for what is around them

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
mistake() { echo "gpu: $*" >&2; exit 2; }

while (($#)); do
  case $1 in
    --output | --root)
      (($# > 1)) || mistake "$1 wants a value"
      if [[ $1 == --root ]]; then root=$2; else output=$2; fi
      shift
      ;;
    --emulated) emulated=--emulated ;;
    --quick) quick=--quick ;;
    --help) usage; exit 0 ;;
    *) mistake "no option '$1'" ;;
  esac
  shift
done

root=$(realpath -m "$root")
keel=$root/bin/keel
[[ -x $keel ]] || mistake "$root has no bin/keel: build or unpack Keel first"
bench=$root/bin/keel_bench
report=$root/bin/keel_gpu_report
[[ -x $bench && -x $report ]] || mistake "$root has no bin/keel_bench: build the benchmarks too"

emulated_folder=$root/lib/keel/emulated/cuda
if [[ $emulated ]]; then
  [[ -d $emulated_folder ]] || mistake "there is no emulated driver in $emulated_folder"
  export KEEL_CUDA_LIBRARY_FOLDER=$emulated_folder
elif [[ ${KEEL_CUDA_LIBRARY_FOLDER:-} -ef $emulated_folder ]]; then
  emulated=--emulated
fi

# An emulated GPU measures nothing either, and takes its time.
small=${quick:-${emulated:+--quick}}

work=$(mktemp -d) || mistake "there is no folder for what is temporary"
awake=
sampler=
running=  # the step's program
cleanup() {
  [[ ! $running ]] || kill "$running" 2>/dev/null
  [[ ! $awake ]] || kill "$awake" 2>/dev/null
  [[ ! $sampler ]] || kill "$sampler" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP  # cleans up
failed=0

# Without persistence mode a GPU sleeps whenever no program has it open, and every step would
# begin with seconds of its waking up: somebody who looks now and then keeps it open.
if [[ ! $emulated ]] && command -v nvidia-smi >/dev/null; then
  nvidia-smi --loop=3600 >/dev/null 2>&1 </dev/null &
  awake=$!
fi

# ---- steps ------------------------------------------------------------------------------

# write_report [--unfinished]: after each step, so that a run which is ended has those before.
write_report() {
  mkdir -p "$(dirname "$output")"
  timeout 20 "$report" "$work" --json "$output.json" --markdown "$output.md" \
    ${emulated:+"$emulated"} $quick "$@"
}

# note NAME OUTCOME SECONDS REASON: a line here, and one of the report.
note() {
  local reason
  reason=$(tr -s '[:cntrl:]' ' ' <<<"$4")
  reason=${reason% }
  printf '%-8s %-16s %3s s  %s\n' "$2" "$1" "$3" "$reason"
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$reason" >>"$work/steps.tsv"
  write_report --unfinished >/dev/null 2>&1
}
skip() { note "$1" skipped 0 "$2"; }

# begin_within SECONDS MARGIN: of a step of so many, in how many something new may be begun, so that
# it ends by itself, with what it has, before it is stopped.
begin_within() {
  local limit=$1 left=$((deadline - SECONDS))
  ((limit < left)) || limit=$left
  ((limit > 2)) || limit=2
  echo $((limit > 2 * $2 ? limit - $2 : limit / 2))
}
readonly case_margin=25  # a case of conformance has 20 s

# step NAME SECONDS PROGRAM ARGUMENTS...: runs it that long at most. $about is what there is to say
# of it if it passes.
step() {
  local name=$1 limit=$2 log=$work/$1.log left=$((deadline - SECONDS)) started=$SECONDS status=0
  shift 2
  ((limit < left)) || limit=$left
  if ((limit < 3)); then
    failed=1
    note "$name" failed 0 "no time is left of $deadline s"
    return
  fi
  timeout -k 3 "$limit" "$@" >"$log" 2>&1 </dev/null &
  running=$!
  wait "$running" || status=$?
  running=
  local took=$((SECONDS - started))
  if ((status == 0)); then
    note "$name" passed "$took" "${about:-}"
    return
  fi
  failed=1
  if ((took >= limit)); then
    note "$name" failed "$took" "out of time after $limit s"
  else
    note "$name" failed "$took" "status $status: $(grep -v '^ *$' "$log" | tail -n 1)"
  fi
  tail -n 20 "$log" | sed 's/^/    /'
}

# ---- the machine ------------------------------------------------------------------------

fact() { printf '%s\t%s\n' "$1" "$2" >>"$work/facts.tsv"; }

# What nvidia-smi, which comes with the driver, says of the first GPU; names end in $1.
gpu_facts() {
  local fields=(name driver_version pci.bus_id clocks.sm clocks.mem clocks.max.sm clocks.max.mem
    power.draw power.limit temperature.gpu) values i
  if [[ $emulated ]]; then
    fact "driver and clocks$1" "not measured: the GPU is emulated"
  elif ! command -v nvidia-smi >/dev/null; then
    fact "driver and clocks$1" "not measured: nvidia-smi is not here"
  elif ! values=$(IFS=, && timeout 20 nvidia-smi -i 0 --format=csv,noheader \
    --query-gpu="${fields[*]}" 2>&1); then
    fact "driver and clocks$1" "not measured: nvidia-smi: $(tail -n 1 <<<"$values")"
  else
    mapfile -t values <<<"${values//, /$'\n'}"
    for i in "${!fields[@]}"; do fact "${fields[i]}$1" "${values[i]:-unknown}"; done
  fi
}

# What is sampled while the figures are taken: before and after them a GPU has other clocks.
sampled=(clocks.sm clocks.mem power.draw temperature.gpu)
units=(MHz MHz W C)
# Of the reasons why clocks are held down, the lowest bit first.
reason_names=("idle" "clocks set by an application" "software power cap" "hardware slowdown"
  "sync boost" "software thermal slowdown" "hardware thermal slowdown" "hardware power brake"
  "clocks set for a display")

start_sampling() {
  local reasons fields i
  if [[ $emulated ]] || ! command -v nvidia-smi >/dev/null; then return; fi
  # The second is what drivers before 535 call it.
  for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
    timeout 20 nvidia-smi -i 0 --query-gpu=$reasons --format=csv,noheader,nounits >/dev/null 2>&1 && break
  done
  fields=$(IFS=, && echo "${sampled[*]},$reasons")
  stdbuf -oL nvidia-smi -i 0 --query-gpu="$fields" --format=csv,noheader,nounits -lms 500 \
    >"$work/samples" 2>&1 </dev/null &
  sampler=$!
  for i in {1..50}; do  # not to miss the first figures
    [[ -s $work/samples ]] && return
    sleep 0.1
  done
}

# end_sampling: facts of what was sampled.
end_sampling() {
  local during=", during the figures" i count spread masks mask bits times held=
  [[ $sampler ]] || return
  kill "$sampler" 2>/dev/null
  for i in {1..20}; do  # one that is stuck in the driver is left to itself
    kill -0 "$sampler" 2>/dev/null || break
    sleep 0.1
  done
  sampler=
  # Of a line that was cut short nothing is taken.
  awk -F', *' -v fields=$((${#sampled[@]} + 1)) 'NF == fields && $NF ~ /^0x[0-9a-fA-F]+$/ {
    for (i = 1; i < NF; ++i) printf "%s\t", $i; print $NF }' "$work/samples" >"$work/samples.tsv"
  count=$(wc -l <"$work/samples.tsv")
  if ((count == 0)); then
    fact "clocks$during" "not measured: nvidia-smi: $(tail -n 1 "$work/samples")"
    return
  fi
  for i in "${!sampled[@]}"; do
    spread=$(cut -f $((i + 1)) "$work/samples.tsv" | grep -xE '[0-9]+(\.[0-9]+)?' | sort -g |
      awk -v unit="${units[i]}" '{ value[NR] = $1 } END { if (NR) printf "%s, %s, %s %s: least, median and most of %d samples", value[1], value[int((NR + 1) / 2)], value[NR], unit, NR }')
    fact "${sampled[i]}$during" "${spread:-unknown}"
  done
  mapfile -t masks < <(cut -f $((${#sampled[@]} + 1)) "$work/samples.tsv")
  for bits in "${!reason_names[@]}"; do
    times=0
    for mask in "${masks[@]}"; do ((!(mask >> bits & 1))) || times=$((times + 1)); done
    ((times == 0)) || held+="${held:+, }${reason_names[bits]} in $times"
  done
  fact "clocks held down$during" "${held:-never}${held:+ of $count samples}"
}

# use_wheel NAME FILE...: unless KEEL_NAME_LIBRARY_FOLDER says where a vendor's library is, or the
# loader has it, that of the interpreter with PyTorch, whose wheels bring one.
use_wheel() {
  local variable=KEEL_$1_LIBRARY_FOLDER name=$1 file folder
  shift
  if [[ ! ${!variable:-} && ! $emulated ]]; then
    for file; do
      PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -qF "$file " && return
      # Where the plugin looks too, for this one.
      [[ $name != CUBLASLT || ! -e /usr/local/cuda/lib64/$file ]] || return
    done
    folder=$(timeout 20 "${KEEL_BENCH_PYTHON:-python3}" - "$@" 2>/dev/null <<'PYTHON'
import glob, importlib.util, os, sys
spec = importlib.util.find_spec("nvidia")
for name in sys.argv[1:]:
    for root in spec.submodule_search_locations if spec else []:
        for found in sorted(glob.glob(os.path.join(root, "*", "lib", name))):
            print(os.path.dirname(found))
            sys.exit()
PYTHON
    )
    [[ ! $folder ]] || export "$variable=$folder"
  fi
  [[ ! ${!variable:-} ]] || fact "$name library" "of ${!variable}"
}
use_wheel CUBLASLT libcublasLt.so.13 libcublasLt.so.12
use_wheel NCCL libnccl.so.2

devices=$(timeout -k 3 60 "$keel" devices 2>&1)
# "1 ready", "0 no device: no CUDA driver: ...".
cuda=$(sed -n 's/^cuda  *\([0-9]*\)  */\1 /p' <<<"$devices" | tail -n 1)
no_gpu=
case $cuda in
  '') no_gpu="this Keel has no backend cuda" ;;
  '0 '*) no_gpu=${cuda#0 } no_gpu=${no_gpu#no device: } ;;
esac
# The lines on one chip, with every way into it.
chip=$(awk '/^[^ ]/ { if (found) exit; text = "" } { text = text $0 "\n" }
  /^cuda:0 / || /^  also    cuda:0,/ { found = 1 } END { if (found) printf "%s", text }' \
  <<<"$devices")
capabilities=$(awk '/^cuda:0 / || /^  also    cuda:0,/ { found = 1 }
  found && /^  capabilities/ { print; exit }' <<<"$devices")
gpu_vulkan=$(grep -oE '(^|^  also    )vulkan:[0-9]+' <<<"$chip" | grep -oE 'vulkan:[0-9]+' | head -n 1)
# For what takes chips of several backends, another way through Vulkan will do.
any_vulkan=${gpu_vulkan:-$(grep -oE '^vulkan:[0-9]+' <<<"$devices" | head -n 1)}
mixed=cuda:0,${any_vulkan:+$any_vulkan,}cpu:0
on_mixed="on $mixed"
if [[ ! $any_vulkan ]]; then
  on_mixed+="; there is no Vulkan device"
elif [[ ! $gpu_vulkan ]]; then
  on_mixed+="; $any_vulkan is another chip than the GPU"
fi

fact "started" "$(date -u +%FT%TZ)"
gpu_facts ""

# ---- what is run --------------------------------------------------------------------------

conform_cuda() {
  local levels=()
  [[ $quick ]] && levels=(--level null,memory)
  step conform-cuda 150 "$keel" conform run --backend cuda ${emulated:+"$emulated"} \
    "${levels[@]}" --within "$(begin_within 150 $case_margin)" --json "$work/conform-cuda.json"
}

conform_vulkan() {
  if [[ ! $gpu_vulkan ]]; then
    skip conform-vulkan "no Vulkan device is this GPU"
    return
  fi
  step conform-vulkan 110 "$keel" conform run --backend vulkan --device "${gpu_vulkan#vulkan:}" \
    --within "$(begin_within 110 $case_margin)" --json "$work/conform-vulkan.json"
}

sanitizer() {
  local program
  program=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
  if [[ $emulated ]]; then
    skip sanitizer "compute-sanitizer sees the code of real GPUs alone"
  elif [[ ! $program ]]; then
    skip sanitizer "compute-sanitizer is not here"
  elif [[ ,${capabilities// /,}, != *,ops,* ]]; then
    skip sanitizer "the backend has no operators of its own"
  else
    # Conformance makes calls that have to fail: only what kernels do is looked at. The first of
    # its processes, which starts the others, makes none at all.
    KEEL_ALLOC=exact step sanitizer 110 "$program" --padding 4096 --target-processes all \
      --require-cuda-init=no --report-api-errors no --error-exitcode 99 \
      "$keel" conform run --backend cuda --level ops --timeout 100 \
      --within "$(begin_within 110 $case_margin)" --json "$work/sanitizer.json"
  fi
}

# Last, in what time is left: of figures that are not begun in it each has its line, and time is
# kept for one that was begun late, which may have to wait for PyTorch's compiler.
figures() {
  local library=$emulated_folder/cublaslt
  if [[ $no_gpu ]]; then  # each figure's line says so
    timeout -k 3 60 "$bench" --filter cuda_ --json "$work/figures.json" >"$work/figures.log" 2>&1
    skip figures "$no_gpu"
  else
    [[ $emulated && -d $library ]] && local -x KEEL_CUBLASLT_LIBRARY_FOLDER=$library
    start_sampling
    step figures 300 "$bench" --filter cuda_ $small \
      --within "$(begin_within 300 45)" --json "$work/figures.json"
    end_sampling
  fi
  grep -E '^cuda_' "$work/figures.log" | sed 's/^/    /'
}

# Every element on every rank is verified, and the sums are exact in float32: the ranks hold the
# same bits.
ring() {
  local sizes=(-b 64K -e 16M -f 4 -n 5 -w 1)
  [[ $quick ]] && sizes=(-b 64K -e 256K -f 4 -n 2 -w 1)
  about=$on_mixed step ring 30 "$keel" perf all_reduce --devices "$mixed" -g "$(wc -w <<<"${mixed//,/ }")" \
    "${sizes[@]}" -c 1 -T 20 -J "$work/ring.json"
}

training() {
  local text=() steps=(--steps 300)
  [[ $small ]] && steps=(--steps 6 --hidden 32)
  if [[ ! -x $root/bin/mixed_training ]]; then
    skip training "$root has no bin/mixed_training"
    return
  fi
  if [[ ! -d /usr/share/common-licenses ]]; then  # what it learns by default
    find "$root/licenses" -type f -exec cat {} + >"$work/text" 2>/dev/null
    [[ -s $work/text ]] || { skip training "there is no text to learn"; return; }
    text=(--text "$work/text")
  fi
  about=$on_mixed step training 80 "$root/bin/mixed_training" --devices "$mixed" "${steps[@]}" "${text[@]}" \
    --json "$work/training.json"
}

if [[ $no_gpu ]]; then
  for name in conform-cuda conform-vulkan sanitizer ring training; do skip $name "$no_gpu"; done
  figures
else
  conform_cuda
  conform_vulkan
  sanitizer
  ring
  training
  figures
  gpu_facts ", afterwards"
fi
fact "seconds" "$SECONDS"

write_report || { echo "gpu: no report could be written" >&2; exit 1; }
echo "$output.json and $output.md, after $SECONDS s"
exit $failed
