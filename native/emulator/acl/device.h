// A chip as one run after another sees it: its table, its memory, what is left in its L2. Both interfaces, ACL's and
// hajax/abi/sim.h, stand on this.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_DEVICE_H_
#define HAJAX_NATIVE_EMULATOR_ACL_DEVICE_H_

#include <stdint.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hajax/abi/sim.h"
#include "hajax/abi/target.h"
#include "native/emulator/core/gm.h"
#include "native/emulator/core/launch.h"
#include "native/emulator/timing/clock.h"

namespace hajax::emulator {

// What a kernel did, and how long that takes by the model; after a failed check `timing` is all zeros and `fault` the
// message.
struct Run {
  std::string kernel;
  Result result;
  Timing timing;
  std::string check;
  std::string fault;
  std::optional<L2> l2_before;  // with `timeline`: what L2 held, so that the trace can be computed again
};

struct RunOptions {
  Options core;
  bool warm_l2 = false;   // L2 keeps what earlier runs left there
  bool timeline = false;  // records are kept
};

class Device {
 public:
  explicit Device(const hj_target& target);  // throws std::bad_alloc when the memory cannot be reserved

  const hj_target& target() const { return target_; }
  Gm& gm() { return gm_; }

  // Rounded up to 32 bytes; null when there is no room.
  void* allocate(int64_t bytes);
  // The bytes lie in one live allocation; otherwise says what is wrong.
  bool holds(const void* pointer, int64_t bytes, std::string* why) const;

  // Between host and device memory, and within the latter. Ranges are checked by the caller.
  void write(void* to, const void* from, int64_t bytes);
  void read(void* to, const void* from, int64_t bytes) const;  // never-written bytes as 0xff
  void copy(void* to, const void* from, int64_t bytes);        // never-written bytes stay so
  void fill(void* to, int value, int64_t bytes);
  int64_t unwritten(const void* from, int64_t bytes) const;

  // Throws std::invalid_argument when it cannot be launched. One at a time.
  std::unique_ptr<Run> run(uint64_t function, const std::string& kernel, int blocks, std::vector<uint64_t> words,
                           const RunOptions& options);
  void check_launch(uint64_t function, int64_t blocks, size_t words) const;

 private:
  // Calls `found` with start and end of each run of never-written bytes.
  template <typename Found>
  void unwritten_runs(int64_t offset, int64_t bytes, Found&& found) const;

  const hj_target target_;
  Gm gm_;
  std::optional<L2> l2_;
  std::mutex running_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_ACL_DEVICE_H_
