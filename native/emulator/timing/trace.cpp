#include "native/emulator/timing/trace.h"

#include <charconv>
#include <map>

#include "native/emulator/core/fault.h"
#include "native/emulator/core/lists.h"

namespace hajax::emulator {
namespace {

class Writer {
 public:
  Writer(const hj_target& target, const TraceLabels& labels) : clock_mhz_(target.clock_mhz), labels_(labels) {
    json_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"times\":\"modelled, not measured on a device\",\"kernel\":" +
            quoted(labels.kernel) + ",\"clock_mhz\":" + number(clock_mhz_) + "},\"traceEvents\":[";
  }

  void name_core(size_t core) {
    const std::string pid = std::to_string(core);
    entry("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + pid + ",\"args\":{\"name\":\"core " + pid +
          " (modelled)\"}");
    for (int p = 0; p < kPipes; ++p) {
      const std::string at = ",\"pid\":" + pid + ",\"tid\":" + std::to_string(p);
      const std::string name = name_of(static_cast<Pipe>(p));
      entry("\"ph\":\"M\",\"name\":\"thread_name\"" + at + ",\"args\":{\"name\":\"" + name + "\"}");
      entry("\"ph\":\"M\",\"name\":\"thread_sort_index\"" + at + ",\"args\":{\"sort_index\":" + std::to_string(p) +
            "}");
    }
  }

  void launch(size_t core, double cycles) {
    entry("\"ph\":\"X\",\"name\":\"launch\"" + place(core, Pipe::S) + span(0, cycles));
  }

  void slice(size_t core, const Slice& one, const Event& event) {
    std::string args;
    if (one.number != 0) args += "\"number\":" + std::to_string(one.number);
    if (one.number != 0 && event.step != 0) args += ",\"step\":" + quoted(step_text(event.step));
    if (one.what == Slice::What::work) {
      if (event.units != 0) args += ",\"units\":" + std::to_string(event.units);
      if (event.path != Path::none) {
        args += ",\"bytes\":" + std::to_string(event.bytes) + ",\"path\":\"" + name_of(event.path) + "\"";
      }
    }
    if (one.number != 0) {
      args += ",\"complete_us\":" + number(one.complete / clock_mhz_);
      const std::string line = line_of(event.where);
      if (!line.empty()) args += ",\"line\":" + quoted(line);
    }
    entry("\"ph\":\"X\",\"name\":\"" + name(one, event) + "\",\"cat\":\"" + category(one.what) + "\"" +
          place(core, one.pipe) + span(one.start, one.end) + ",\"args\":{" + args + "}");
  }

  // From the start of the set to the moment in which the wait, if it held its pipe, was let go.
  void arrow(size_t core, const Slice& set, const Slice& wait, double flag_cycles) {
    const std::string common = ",\"name\":\"flag\",\"cat\":\"flag\",\"id\":" + std::to_string(++arrows_);
    entry("\"ph\":\"s\"" + common + place(core, set.pipe) + ",\"ts\":" + number(set.start / clock_mhz_));
    entry("\"ph\":\"f\",\"bp\":\"e\"" + common + place(core, wait.pipe) +
          ",\"ts\":" + number((wait.end - flag_cycles) / clock_mhz_));
  }

  std::string finish() {
    json_ += "\n]}\n";
    return std::move(json_);
  }

 private:
  void entry(const std::string& fields) {
    json_ += first_ ? "\n{" : ",\n{";
    json_ += fields;
    json_ += '}';
    first_ = false;
  }

  static std::string place(size_t core, Pipe pipe) {
    return ",\"pid\":" + std::to_string(core) + ",\"tid\":" + std::to_string(static_cast<int>(pipe));
  }

  std::string span(double start, double end) const {
    return ",\"ts\":" + number(start / clock_mhz_) + ",\"dur\":" + number((end - start) / clock_mhz_);
  }

  static std::string name(const Slice& one, const Event& event) {
    const std::string pair =
        std::string(name_of(event.from)) + " to " + name_of(event.to) + " #" + std::to_string(event.event);
    switch (one.what) {
      case Slice::What::work:
        return name_of(event.instruction);
      case Slice::What::scalar:
        return "scalar work";
      case Slice::What::queue_full:
        return std::string("queue of ") + name_of(one.full) + " is full";
      case Slice::What::set:
        return "SetFlag " + pair;
      case Slice::What::wait:
        return "WaitFlag " + pair;
      case Slice::What::barrier:
        if (event.instruction == Instruction::sync_all) return "SyncAll";
        return event.event == 1 ? "PipeBarrier ALL" : std::string("PipeBarrier ") + name_of(one.pipe);
    }
    return "?";
  }

  static const char* category(Slice::What what) {
    switch (what) {
      case Slice::What::work:
        return "instruction";
      case Slice::What::scalar:
        return "scalar";
      case Slice::What::set:
        return "flag";
      case Slice::What::queue_full:
      case Slice::What::wait:
      case Slice::What::barrier:
        return "waiting";
    }
    return "?";
  }

  // A tenth of a nanosecond is less than a cycle. Not by printf: its decimal point depends on the host program's
  // locale.
  static std::string number(double value) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, 4);
    return std::string(text, end.ptr);
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
  }

  const std::string& line_of(const void* where) {
    const auto [found, fresh] = lines_.try_emplace(where);
    if (fresh && labels_.line && where != nullptr) found->second = labels_.line(where);
    return found->second;
  }

  const double clock_mhz_;
  const TraceLabels& labels_;
  std::map<const void*, std::string> lines_;
  std::string json_;
  bool first_ = true;
  uint64_t arrows_ = 0;
};

}  // namespace

std::string trace_json(const hj_target& target, const Result& result, const Timeline& timeline,
                       const TraceLabels& labels) {
  Writer writer(target, labels);
  for (size_t core = 0; core < timeline.size(); ++core) {
    writer.name_core(core);
    writer.launch(core, target.launch_cycles);
    for (const Slice& one : timeline[core]) {
      writer.slice(core, one, result.records[core].events[one.event]);
      if (one.partner == Slice::kNone) continue;
      writer.arrow(core, timeline[core][one.partner], one, target.flag_cycles);
    }
  }
  return writer.finish();
}

}  // namespace hajax::emulator
