#include "native/emulator/acl/inject.h"

#include <stdexcept>

namespace hajax::emulator::acl {
namespace {

constexpr const char* kNames[kSites] = {"malloc", "memcpy", "launch", "execute", "device_lost"};
constexpr size_t kMostDigits = 9;

[[noreturn]] void refuse(const std::string& part) {
  throw std::invalid_argument(
      "expected malloc, memcpy, launch, execute or device_lost, a colon and a count from 1, as in malloc:3, got \"" +
      part + "\"");
}

}  // namespace

void Injection::set(const std::string& text) {
  std::array<Trap, kSites> traps;
  for (size_t from = 0; from < text.size();) {
    const size_t comma = text.find(',', from);
    const std::string part = text.substr(from, comma == std::string::npos ? comma : comma - from);
    if (comma != std::string::npos && comma + 1 == text.size()) refuse("");
    from = comma == std::string::npos ? text.size() : comma + 1;
    const size_t colon = part.find(':');
    const std::string count = colon == std::string::npos ? "" : part.substr(colon + 1);
    int site = 0;
    while (site < kSites && part.substr(0, colon) != kNames[site]) ++site;
    if (site == kSites || count.empty() || count.size() > kMostDigits || count[0] == '0' ||
        count.find_first_not_of("0123456789") != std::string::npos) {
      refuse(part);
    }
    traps[static_cast<size_t>(site)].at = std::stoll(count);
  }
  traps_ = traps;
}

bool Injection::hit(Site site) {
  Trap& trap = traps_[static_cast<size_t>(site)];
  return ++trap.count == trap.at;
}

}  // namespace hajax::emulator::acl
