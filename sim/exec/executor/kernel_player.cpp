#include "sim/exec/executor/kernel_player.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/int128.hpp"
#include "sim/exec/longest_step.hpp"

namespace orrery {

namespace {

constexpr int kFractionBits = 60;

Duration scaled(Duration duration, Scale scale) {
  if (scale == kUnscaled || duration == kTooLong) return duration;  // what has been cut stays too long
  const UInt128 product = (static_cast<UInt128>(duration.count()) * scale) >> 32;
  return product < static_cast<UInt128>(kTooLong.count()) ? Duration(static_cast<std::int64_t>(product)) : kTooLong;
}

// Differences of scaled prefix sums, so that parts of a sequence add up to the whole.
Duration between(const SequenceTimes& times, std::uint32_t begin, std::uint32_t end, Scale scale) {
  return scaled(times.until[end], scale) - scaled(times.until[begin], scale);
}

Duration start_up(const SequenceTimes& times, std::uint32_t index, Scale scale) {
  return scaled(times.parts[index].fixed, scale);
}

// A kernel's time after its start-up: floor(a + b) - floor(a) >= floor(b), unless the sums are cut at kTooLong.
Duration whole_part(const SequenceTimes& times, std::uint32_t index, Scale scale) {
  return std::max(Duration{}, between(times, index, index + 1, scale) - start_up(times, index, scale));
}

std::uint64_t fraction(Int128 left, Int128 whole) {
  // Both may need 100 bits: what is beyond 66 does not matter to a fraction of 60.
  while (whole >> 66 != 0) {
    whole >>= 1;
    left >>= 1;
  }
  return whole == 0 ? 0 : static_cast<std::uint64_t>((left << kFractionBits) / whole);
}

std::int64_t of_whole(std::uint64_t rest, std::int64_t whole) {
  const UInt128 product = static_cast<UInt128>(rest) * static_cast<std::uint64_t>(whole);
  return static_cast<std::int64_t>((product + (UInt128{1} << kFractionBits) - 1) >> kFractionBits);
}

}  // namespace

void KernelPlayer::add_gpu(GpuId gpu, std::uint32_t gpu_kind, std::uint32_t target) {
  Run run;
  run.gpu = gpu;
  run.gpu_kind = gpu_kind;
  run.target = target;
  run.timer = machine_.add_timer(Owner::executor, target);
  runs_.push_back(run);
}

void KernelPlayer::start(std::size_t gpu, std::uint32_t sequence, Instant host, Scale scale,
                         const Conditions& conditions) {
  Run& run = runs_[gpu];
  ORRERY_CHECK(run.stage == Stage::idle, "one sequence at a time", gpu);
  run.sequence = sequence;
  run.host = host;
  run.scale = scale;
  run.started = machine_.now();
  run.late = Instant(Duration(-1));
  run.busy = Duration{};
  use(run, conditions);
  run.index = 0;
  run.begun = false;
  run.rest = kWhole;
  const bool empty = run.times->kernels() == 0;
  run.fixed_left = empty ? Duration{} : start_up(*run.times, 0, scale);
  run.first_start = std::max(machine_.now(), empty ? host : launched(run, 0));
  proceed(run);
}

Duration KernelPlayer::withdraw(std::size_t gpu) {
  Run& run = runs_[gpu];
  ORRERY_CHECK(waits_for_launch(gpu), "nothing of the sequence has run", gpu);
  machine_.disarm(run.timer);
  run.stage = Stage::idle;
  return machine_.now() - run.started;
}

void KernelPlayer::adapt(std::size_t gpu, const Conditions& conditions) {
  Run& run = runs_[gpu];
  if (run.stage == Stage::idle) return;
  if (conditions == Conditions{run.times->multiprocessors, run.shared_memory}) return;
  interrupt(run);
  use(run, conditions);
  proceed(run);
}

void KernelPlayer::use(Run& run, const Conditions& conditions) {
  run.times = &table_.times(run.gpu_kind, run.sequence, conditions.multiprocessors);
  run.shared_memory = conditions.shared_memory;
}

// Plays on from kernel `index`. An end that is due now comes as an event all the same: false.
bool KernelPlayer::proceed(Run& run) {
  if (!run.shared_memory || run.index == run.times->kernels()) {
    run.stage = Stage::computed;
    run.since = machine_.now();
    machine_.arm(run.timer, computed_end(run));
    return false;
  }
  return step(run);
}

Instant KernelPlayer::computed_end(const Run& run) const {
  const SequenceTimes& times = *run.times;
  const std::uint32_t count = times.kernels();
  Instant end = run.since;
  if (count == 0) return std::max(end, run.host);  // nothing to launch, but not before the host comes by
  if (run.index == count) return end;
  if (!run.begun) end = std::max(end, launched(run, run.index));
  end += run.fixed_left + Duration(of_whole(run.rest, whole_part(times, run.index, run.scale).count()));
  const std::uint32_t next = run.index + 1;
  if (next == count) return end;
  if (run.scale == kUnscaled) {
    return std::max(end - times.until[next], run.host + times.launch_bound[next]) + times.until[count];
  }
  if (launched(run, count - 1) <= end) return end + between(times, next, count, run.scale);
  for (std::uint32_t i = next; i < count; ++i) {
    end = std::max(end, launched(run, i)) + between(times, i, i + 1, run.scale);
  }
  return end;
}

Instant KernelPlayer::late_launch(std::size_t gpu) const {
  // What was computed in one step is gone through now; of what was played kernel by kernel nothing is left.
  const Run& run = runs_[gpu];
  const SequenceTimes& times = *run.times;
  Instant late = run.late;
  Instant cursor = run.since;
  for (std::uint32_t i = run.index; i < times.kernels(); ++i) {
    const bool in_progress = i == run.index;
    const Instant begin = in_progress && run.begun ? cursor : std::max(cursor, launched(run, i));
    if (begin > cursor) late = begin;
    cursor =
        begin + (in_progress ? run.fixed_left + Duration(of_whole(run.rest, whole_part(times, i, run.scale).count()))
                             : between(times, i, i + 1, run.scale));
  }
  return late;
}

// Takes up kernel `index`, alone. True if there is none left.
bool KernelPlayer::step(Run& run) {
  if (run.index == run.times->kernels()) {
    run.stage = Stage::idle;
    return true;
  }
  const Instant now = machine_.now();
  run.since = run.begun ? now : std::max(now, launched(run, run.index));
  if (run.since > now) run.late = run.since;
  if (run.since + run.fixed_left > now) {
    run.stage = Stage::starting;
    machine_.arm(run.timer, run.since + run.fixed_left);
  } else {
    run_part(run);
  }
  return false;
}

void KernelPlayer::run_part(Run& run) {
  const KernelPart& part = run.times->parts[run.index];
  run.begun = true;
  run.fixed_left = Duration{};
  run.since = machine_.now();
  if (part.light) {
    run.stage = Stage::timed;
    const Duration whole = whole_part(*run.times, run.index, run.scale);
    machine_.arm(run.timer, run.since + Duration(of_whole(run.rest, whole.count())));
    return;
  }
  run.stage = Stage::flowing;
  const Int128 scaled_work = (static_cast<Int128>(part.work.count()) * run.scale + kUnscaled - 1) >> 32;
  run.work = Bytes(static_cast<std::int64_t>(scaled_work));
  const Crossing crossing{machine_.memory(run.gpu), 1};
  run.flow = machine_.start_flow(Bytes(of_whole(run.rest, run.work.count())), part.cap, {&crossing, 1}, Owner::executor,
                                 run.target);
}

void KernelPlayer::next_kernel(Run& run) const {
  ++run.index;
  run.begun = false;
  run.rest = kWhole;
  run.fixed_left = run.index < run.times->kernels() ? start_up(*run.times, run.index, run.scale) : Duration{};
}

bool KernelPlayer::timer(std::size_t gpu) {
  Run& run = runs_[gpu];
  const Instant now = machine_.now();
  switch (run.stage) {
    case Stage::computed: {
      const SequenceTimes& times = *run.times;
      if (run.index < times.kernels()) {
        run.busy += run.fixed_left + Duration(of_whole(run.rest, whole_part(times, run.index, run.scale).count()));
        run.busy += between(times, run.index + 1, times.kernels(), run.scale);
      }
      run.stage = Stage::idle;
      return true;
    }
    case Stage::starting:
      run.busy += run.fixed_left;
      run_part(run);
      return false;
    case Stage::timed:
      run.busy += now - run.since;
      next_kernel(run);
      return step(run);
    case Stage::idle:
    case Stage::flowing:
      break;
  }
  ORRERY_CHECK(false, "a timer without a cause", gpu);
  return false;
}

bool KernelPlayer::flow_completed(std::size_t gpu) {
  Run& run = runs_[gpu];
  ORRERY_CHECK(run.stage == Stage::flowing, "a flow without a kernel", gpu);
  run.busy += machine_.now() - run.since;
  next_kernel(run);
  return step(run);
}

void KernelPlayer::interrupt(Run& run) {
  const Duration elapsed = machine_.now() - run.since;
  switch (run.stage) {
    case Stage::computed:
      interrupt_computed(run);
      break;
    case Stage::starting:
      if (elapsed > Duration{}) {
        run.begun = true;
        run.busy += elapsed;
        run.fixed_left -= elapsed;
      }
      break;
    case Stage::timed:
      if (elapsed > Duration{}) {
        const std::int64_t whole = whole_part(*run.times, run.index, run.scale).count();
        run.busy += elapsed;
        run.rest = fraction(of_whole(run.rest, whole) - elapsed.count(), whole);
      }
      break;
    case Stage::flowing:
      interrupt_flow(run);
      break;
    case Stage::idle:
      break;
  }
  machine_.disarm(run.timer);
}

void KernelPlayer::interrupt_flow(Run& run) {
  const Duration elapsed = machine_.now() - run.since;
  if (elapsed > Duration{}) {
    run.busy += elapsed;
    run.rest = fraction(machine_.remaining(run.flow), ticks_from_units(run.work.count()));
  }
  machine_.cancel_flow(run.flow);
}

// Finds the kernel that is in progress, by the recursion at the head of sequence_times.hpp.
void KernelPlayer::interrupt_computed(Run& run) const {
  const SequenceTimes& times = *run.times;
  const Instant now = machine_.now();
  Instant cursor = run.since;
  while (run.index < times.kernels()) {
    const Instant begin = run.begun ? cursor : std::max(cursor, launched(run, run.index));
    if (now <= begin) return;
    if (begin > cursor) run.late = begin;
    const std::int64_t whole = whole_part(times, run.index, run.scale).count();
    const Duration duration = run.fixed_left + Duration(of_whole(run.rest, whole));
    const Duration elapsed = now - begin;
    if (elapsed < duration) {
      run.begun = true;
      run.busy += elapsed;
      if (elapsed < run.fixed_left) {
        run.fixed_left -= elapsed;
      } else {
        run.rest = fraction((duration - elapsed).count(), whole);
        run.fixed_left = Duration{};
      }
      return;
    }
    run.busy += duration;
    cursor = begin + duration;
    next_kernel(run);
  }
}

}  // namespace orrery
