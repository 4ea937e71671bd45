// Reads a chip and the events of its cores as text, prints what the clock makes of them as JSON. For test_clock.py,
// test_targets.py.
//   target NAME | fact FIELD VALUE | cost INSTRUCTION START PER_UNIT
//   core | event INSTRUCTION PIPE KIND WHAT FROM TO ID PATH SCALAR_CYCLES UNITS BYTES | gm OFFSET BYTES STRIDE RUNS
//   WRITE count NAME VALUE | path NAME BYTES
// then one of: dump (the chip) | measure N (N launches on one device) | trace | cycles INSTRUCTION UNITS BYTES PATH
// MISSED
#include <stdio.h>
#include <stdlib.h>

#include <iostream>
#include <string>

#include "native/emulator/timing/clock.h"
#include "native/emulator/timing/cost.h"
#include "native/emulator/timing/targets.h"
#include "native/emulator/timing/trace.h"

namespace {

using namespace hajax::emulator;

[[noreturn]] void refuse(const std::string& what) {
  fprintf(stderr, "clock_driver: %s\n", what.c_str());
  exit(1);
}

template <typename List>
List find(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<List>(i))) return static_cast<List>(i);
  }
  refuse("unknown name " + name);
}

Path find_path(const std::string& name) { return name == "none" ? Path::none : find<Path>(name, kPaths); }

constexpr int kInstructions = 0
#define INSTRUCTION(number, name, pipe, family) +1
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
    ;

int find_count(const std::string& name) {
#define COUNT(number, label, unit, meaning) \
  if (name == #label) return number;
#include "hajax/abi/counts.def"
#undef COUNT
  refuse("unknown count " + name);
}

void set_fact(hj_target& target, const std::string& name, double value) {
#define FACT(field, preset, status, unit, source) \
  if (name == #field) target.field = static_cast<decltype(target.field)>(value);
#define COST(instruction, start, per_unit, status, unit, source)
#include "hajax/targets/ascend310p1.def"
#undef FACT
#undef COST
}

void dump(const hj_target& target) {
  printf("{");
#define FACT(field, preset, status, unit, source) printf("\"%s\": %.17g, ", #field, static_cast<double>(target.field));
#define COST(instruction, start, per_unit, status, unit, source)
#include "hajax/targets/ascend310p1.def"
#undef FACT
#undef COST
  printf("\"names\": [");
  for (const char* name : target_names()) printf("%s\"%s\"", name == target_names()[0] ? "" : ", ", name);
  printf("], \"costs\": {");
  for (int i = 0; i < kInstructions; ++i) {
    const hj_cost cost = target.cost[i];
    printf("%s\"%s\": [%.17g, %.17g]", i ? ", " : "", name_of(static_cast<Instruction>(i)), cost.start, cost.per_unit);
  }
  printf("}}\n");
}

constexpr int kPlace = 0;  // stands for an address in a kernel

Event read_event() {
  std::string instruction, pipe, kind, what, from, to, path;
  int id;
  Event event{};
  std::cin >> instruction >> pipe >> kind >> what >> from >> to >> id >> path >> event.scalar_cycles >> event.units >>
      event.bytes;
  event.instruction = find<Instruction>(instruction, kInstructions);
  event.pipe = find<Pipe>(pipe, kPipes);
  event.kind = kind == "set" ? Kind::set : kind == "wait" ? Kind::wait : kind == "barrier" ? Kind::barrier : Kind::work;
  event.what = what == "issued" ? Event::kIssued : what == "executed" ? Event::kExecuted : 3;
  event.from = find<Pipe>(from, kPipes);
  event.to = find<Pipe>(to, kPipes);
  event.event = static_cast<uint8_t>(id);
  event.path = find_path(path);
  event.gm = Event::kNoGm;
  if (event.instruction == Instruction::vadd) event.where = &kPlace;
  return event;
}

GmAccess read_gm(const CoreRecord& record) {
  GmAccess one{};
  std::cin >> one.offset >> one.bytes >> one.stride >> one.runs >> one.write;
  one.pipe = record.events.back().pipe;
  one.number = static_cast<uint32_t>(record.events.size());
  return one;
}

void print(const Timing& timing, const Timeline& timeline) {
  printf("{\"values\": {");
  const char* comma = "";
#define TIMING(number, name, unit, meaning)                           \
  printf("%s\"%s\": %.17g", comma, #name, timing[TimingValue::name]); \
  comma = ", ";
#include "hajax/abi/timing.def"
#undef TIMING
  printf("}, \"cores\": [");
  for (size_t core = 0; core < timing.cores.size(); ++core) {
    printf("%s{\"end\": %.17g, \"pipes\": {", core ? ", " : "", timing.cores[core].end);
    for (int p = 0; p < kPipes; ++p) {
      const PipeTiming& pipe = timing.cores[core].pipes[p];
      printf("%s\"%s\": {\"busy\": %.17g, \"held\": %.17g, \"start\": %.17g, \"end\": %.17g, \"instructions\": %d}",
             p ? ", " : "", name_of(static_cast<Pipe>(p)), pipe.busy, pipe.held, pipe.start, pipe.end,
             static_cast<int>(pipe.instructions));
    }
    printf("}, \"slices\": [");
    for (size_t i = 0; i < timeline[core].size(); ++i) {
      const Slice& slice = timeline[core][i];
      printf("%s[%d, %u, %.17g, %.17g, %.17g]", i ? ", " : "", static_cast<int>(slice.what), slice.event, slice.start,
             slice.end, slice.complete);
    }
    printf("]}");
  }
  printf("]}");
}

void measure_launches(const hj_target& target, const Result& result) {
  int launches;
  std::cin >> launches;
  L2 l2(target);
  printf("[");
  for (int i = 0; i < launches; ++i) {
    Timeline timeline;
    const Timing timing = measure(target, result, l2, &timeline);
    if (i) printf(", ");
    print(timing, timeline);
  }
  printf("]\n");
}

void print_cycles(const hj_target& target) {
  std::string instruction, path;
  int64_t units, bytes, missed;
  std::cin >> instruction >> units >> bytes >> path >> missed;
  const auto which = find<Instruction>(instruction, kInstructions);
  printf("[%.17g, %.17g]\n", instruction_cycles(target, which, units, bytes, find_path(path), missed),
         instruction_latency(target, which, find_path(path)));
}

void run() {
  hj_target target{};
  Result result;
  std::string word;
  while (std::cin >> word) {
    std::string name;
    double value, slope;
    if (word == "target") {
      std::cin >> name;
      const hj_target* found = built_in_target(name.c_str());
      if (found == nullptr) refuse("no target " + name);
      target = *found;
    } else if (word == "fact") {
      std::cin >> name >> value;
      set_fact(target, name, value);
    } else if (word == "cost") {
      std::cin >> name >> value >> slope;
      target.cost[static_cast<int>(find<Instruction>(name, kInstructions))] = {value, slope};
    } else if (word == "core") {
      result.records.emplace_back();
      result.counts.emplace_back();
    } else if (word == "event") {
      result.records.back().events.push_back(read_event());
    } else if (word == "gm") {
      CoreRecord& record = result.records.back();
      if (record.events.back().gm == Event::kNoGm) record.events.back().gm = static_cast<uint32_t>(record.gm.size());
      record.gm.push_back(read_gm(record));
    } else if (word == "count") {
      std::cin >> name >> value;
      result.counts.back().counts[find_count(name)] = static_cast<uint64_t>(value);
    } else if (word == "path") {
      std::cin >> name >> value;
      result.counts.back().path_bytes[static_cast<int>(find<Path>(name, kPaths))] = static_cast<uint64_t>(value);
    } else if (word == "dump") {
      dump(target);
    } else if (word == "measure") {
      measure_launches(target, result);
    } else if (word == "cycles") {
      print_cycles(target);
    } else if (word == "trace") {
      L2 l2(target);
      Timeline timeline;
      measure(target, result, l2, &timeline);
      TraceLabels labels{"a \"kernel\"", [](const void*) { return std::string("here.cpp:1"); }};
      fputs(trace_json(target, result, timeline, labels).c_str(), stdout);
    } else {
      refuse("unknown word " + word);
    }
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  return 0;
}
