#include "native/emulator/timing/clock.h"

#include <algorithm>

#include "native/emulator/timing/energy.h"

namespace hajax::emulator {
namespace {

// Bytes of all cores.
struct GmTotals {
  int64_t read_hit = 0;
  int64_t read_missed = 0;
  int64_t written = 0;
  int64_t written_back = 0;
};

L2Traffic serve_gm(const CoreClock& core, const CoreRecord& record, L2& l2, GmTotals* totals) {
  size_t first = 0;
  size_t last = 0;
  core.gm_range(&first, &last);
  L2Traffic sum;
  for (size_t i = first; i < last; ++i) {
    const L2Traffic one = l2.access(record.gm[i]);
    sum.hit += one.hit;
    sum.missed += one.missed;
    totals->written_back += one.written_back;
    if (record.gm[i].write) {
      totals->written += one.hit + one.missed;
    } else {
      totals->read_hit += one.hit;
      totals->read_missed += one.missed;
    }
  }
  return sum;
}

// Runs all cores to their ends: the earliest GM access first, of two at once that of the lower core; SyncAll when all
// that have not ended are there.
void run_cores(const hj_target& target, const Result& result, L2& l2, std::vector<CoreClock>* cores, GmTotals* totals) {
  std::vector<CoreClock::Stop> stops;
  for (CoreClock& core : *cores) stops.push_back(core.run());
  while (true) {
    size_t next = cores->size();
    bool synchronising = false;
    double meeting = 0;
    for (size_t i = 0; i < cores->size(); ++i) {
      const double time = (*cores)[i].time();
      if (stops[i] == CoreClock::Stop::gm && (next == cores->size() || time < (*cores)[next].time())) next = i;
      if (stops[i] != CoreClock::Stop::sync_all) continue;
      synchronising = true;
      meeting = std::max(meeting, time);
    }
    if (next != cores->size()) {
      CoreClock& core = (*cores)[next];
      core.serve(serve_gm(core, result.records[next], l2, totals));
      stops[next] = core.run();
      continue;
    }
    if (!synchronising) return;
    for (size_t i = 0; i < cores->size(); ++i) {
      if (stops[i] != CoreClock::Stop::sync_all) continue;
      (*cores)[i].release(meeting + target.sync_all_cycles);
      stops[i] = (*cores)[i].run();
    }
  }
}

void fill(const hj_target& target, const Result& result, const GmTotals& totals, Timing* timing) {
  double cycles = target.launch_cycles;
  for (const CoreTiming& core : timing->cores) cycles = std::max(cycles, core.end);
  double picojoules = memory_picojoules(target, totals.read_hit + totals.read_missed + totals.written,
                                        totals.read_missed + totals.written_back);
  double macs = 0;
  for (const CoreCounts& counts : result.counts) {
    picojoules += core_picojoules(target, counts);
    macs += static_cast<double>(counts.counts[static_cast<int>(Count::useful_macs)]);
  }
  const double tile_cycles = target.cost[static_cast<int>(Instruction::mad)].per_unit;
  const double peak = 16 * 16 * 16 / tile_cycles * static_cast<double>(target.ai_cores);
  Timing& t = *timing;
  t[TimingValue::cycles] = cycles;
  t[TimingValue::microseconds] = cycles / target.clock_mhz;
  t[TimingValue::launch_cycles] = target.launch_cycles;
  t[TimingValue::ddr_read_bytes] = static_cast<double>(totals.read_missed);
  t[TimingValue::ddr_write_bytes] = static_cast<double>(totals.written_back);
  t[TimingValue::l2_read_bytes] = static_cast<double>(totals.read_hit);
  t[TimingValue::l2_write_bytes] = static_cast<double>(totals.written);
  t[TimingValue::dynamic_microjoules] = picojoules * 1e-6;
  t[TimingValue::static_microjoules] = target.static_watts * t[TimingValue::microseconds];
  t[TimingValue::cube_utilisation] = macs / (cycles * peak);
}

}  // namespace

Timing measure(const hj_target& target, const Result& result, L2& l2, Timeline* timeline) {
  if (timeline != nullptr) timeline->assign(result.records.size(), {});
  std::vector<CoreClock> cores;
  cores.reserve(result.records.size());
  for (size_t i = 0; i < result.records.size(); ++i) {
    std::vector<Slice>* slices = timeline == nullptr ? nullptr : &(*timeline)[i];
    if (slices != nullptr) slices->reserve(result.records[i].events.size());
    cores.emplace_back(target, result.records[i], target.launch_cycles, slices);
  }
  GmTotals totals;
  run_cores(target, result, l2, &cores, &totals);
  Timing timing;
  for (const CoreClock& core : cores) timing.cores.push_back(core.timing());
  fill(target, result, totals, &timing);
  return timing;
}

}  // namespace hajax::emulator
