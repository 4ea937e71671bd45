// Faults on request, so that a program's error paths can be tested: the n-th call of a kind fails.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_INJECT_H_
#define HAJAX_NATIVE_EMULATOR_ACL_INJECT_H_

#include <stdint.h>

#include <array>
#include <string>

namespace hajax::emulator::acl {

// What can be made to fail. `execute` is a kernel's run on the device, `device_lost` the loss of the device after a
// launch.
enum class Site : uint8_t { malloc, memcpy, launch, execute, device_lost };
inline constexpr int kSites = 5;

class Injection {
 public:
  // "malloc:3,device_lost:2", "" for none; throws std::invalid_argument on anything else. Counting starts anew.
  void set(const std::string& text);
  // Counts one call; true when it is the one that shall fail.
  bool hit(Site site);

 private:
  struct Trap {
    int64_t at = 0;  // 0: never
    int64_t count = 0;
  };
  std::array<Trap, kSites> traps_;
};

}  // namespace hajax::emulator::acl

#endif  // HAJAX_NATIVE_EMULATOR_ACL_INJECT_H_
