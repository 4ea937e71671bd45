#include "native/emulator/core/fault.h"

#include <dlfcn.h>
#include <stdio.h>

#include <string>

namespace hajax::emulator {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Frames inside the emulator's own headers are not where the kernel's author looks.
bool is_kernel_line(const std::string& line) {
  return line.find("native/emulator/") == std::string::npos && line.find("??") == std::string::npos && !line.empty();
}

std::string place_text(const Place& place) {
  if (place.number == 0) {
    const std::string line = source_line(place.where);
    return line.empty() ? "" : "at " + line;
  }
  std::string text = name_of(place.pipe);
  if (place.number != 0) text += " instruction " + std::to_string(place.number);
  if (place.known) {
    text += std::string(" (") + name_of(place.instruction) + ")";
    if (place.step != 0) text += " of step " + step_text(place.step);
    const std::string line = source_line(place.where);
    if (!line.empty()) text += " at " + line;
  }
  return text;
}

}  // namespace

std::string source_line(const void* where) {
  Dl_info info;
  if (where == nullptr || dladdr(where, &info) == 0 || info.dli_fname == nullptr) return "";
  // One less than the return address lies inside the call. Position-independent files count from their load address.
  const auto address = reinterpret_cast<uintptr_t>(where) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1;
  char hex[32];
  snprintf(hex, sizeof hex, "0x%zx", static_cast<size_t>(address));
  const std::string command = "addr2line -i -e " + quoted(info.dli_fname) + " " + hex + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string found;
  char buffer[4096];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) {
    std::string line = buffer;
    line = line.substr(0, line.find('\n'));
    line = line.substr(0, line.find(" (discriminator"));
    if (found.empty() && is_kernel_line(line)) found = line;
  }
  pclose(pipe);
  return found;
}

std::string describe(const Fault& fault) {
  std::string text = name_of(fault.check);
  text += ": ";
  if (!fault.kernel.empty()) text += "kernel " + fault.kernel + ", ";
  if (fault.core >= 0) text += "core " + std::to_string(fault.core) + ", ";
  if (!fault.step.empty()) text += "step " + fault.step + ", ";
  const std::string at = place_text(fault.at);
  if (!at.empty()) text += at + ": ";
  text += fault.text;
  if (fault.other.number != 0) text += "\n  the other access: " + place_text(fault.other);
  const std::string hint = hint_of(fault.check);
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

}  // namespace hajax::emulator
