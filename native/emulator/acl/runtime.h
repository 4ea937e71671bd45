// The state behind ACL's functions: one device, its contexts, streams, events and binaries, all under one lock.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_RUNTIME_H_
#define HAJAX_NATIVE_EMULATOR_ACL_RUNTIME_H_

#include <stdint.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/emulator/acl/device.h"
#include "native/emulator/acl/failure.h"
#include "native/emulator/acl/host_memory.h"
#include "native/emulator/acl/include/acl/acl_rt.h"
#include "native/emulator/acl/inject.h"

namespace hajax::emulator::acl {

struct Stream;

// Each record takes the next ticket. A wait is for the ticket that was the latest when it was queued.
struct Event {
  uint64_t handle = 0;
  uint64_t tickets = 0;      // records queued so far
  uint64_t latest = 0;       // ticket of the latest record, 0 after a reset
  uint64_t reached = 0;      // ticket of the latest record that ran
  double microseconds = 0;   // its modelled time
  std::weak_ptr<Stream> on;  // the stream of the latest record
};

struct Task {
  std::function<void(Stream&)> work;
};

struct Stream {
  uint64_t handle = 0;
  uint64_t context = 0;
  std::deque<Task> tasks;
  std::optional<Failure> failure;  // the first since the last wait
  double microseconds = 0;         // modelled: when what ran so far has ended
  bool running = false;
};

struct Context {
  std::shared_ptr<Stream> default_stream;
};

struct Binary {
  void* library = nullptr;
  std::string path;
};

struct Function {
  uint64_t binary = 0;
  uint64_t address = 0;
  std::string name;
};

struct Arguments {
  std::vector<uint64_t> words;
  bool final = false;
};

class Runtime {
 public:
  // The process's, or that of the calling thread's Session. The former is never destroyed: threads and libraries may
  // outlive main().
  static Runtime& instance();
  Runtime(const hj_target& chip, const RunOptions& how);  // of a Session

  std::mutex lock;
  bool initialised = false;
  bool finalised = false;
  bool lost = false;
  int64_t references = 0;      // of aclrtSetDevice less aclrtResetDevice
  std::string settings_error;  // of the environment: every call fails with it
  const hj_target* target = nullptr;
  std::string soc_name;
  RunOptions options;
  Injection injection;
  uint64_t default_context = 0;  // of aclrtSetDevice
  double free_at = 0;            // modelled: when the cores are done with the kernels so far

  std::unique_ptr<Device> device;
  std::map<uint64_t, Context> contexts;
  std::map<uint64_t, std::shared_ptr<Stream>> streams;
  std::map<uint64_t, std::shared_ptr<Event>> events;
  std::map<uint64_t, Binary> binaries;
  std::map<uint64_t, Function> functions;
  std::map<uint64_t, Arguments> arguments;
  HostMemory host;  // of aclrtMallocHost
  bool keep_runs = false;
  std::vector<std::unique_ptr<Run>> runs;  // kept; after a failed check no further kernel runs

  void open_device();
  void close_device();
  uint64_t new_handle() { return next_handle_ += 16; }
  uint64_t new_context();
  void drop_context(uint64_t handle);

  // The calling thread's context; throws when it has none.
  uint64_t current_context() const;
  // Null is the default stream. Throws for a destroyed stream or one of another context.
  Stream& stream(aclrtStream handle);
  std::shared_ptr<Stream> shared_stream(aclrtStream handle);
  std::shared_ptr<Event> event(aclrtEvent handle);

  // Runs a stream's tasks until `enough` says so or none is left. Failures stay with the stream.
  void advance(Stream& stream, const std::function<bool()>& enough);
  void finish(Stream& stream);  // all of them, then throws the stream's first failure
  void reach(Event& event, uint64_t ticket);
  void launch(uint64_t function, const std::string& kernel, uint32_t blocks, std::vector<uint64_t> words,
              Stream& stream);

 private:
  Runtime();
  void run_kernel(uint64_t function, const std::string& kernel, int blocks, const std::vector<uint64_t>& words,
                  Stream& stream);

  uint64_t next_handle_ = 0x1000;
};

// As the environment says: HAJAX_SIM_FAST, HAJAX_SIM_THREADS, HAJAX_SIM_AUTO_BARRIERS. Throws std::invalid_argument.
RunOptions environment_options();

// While one lives, ACL calls of its thread go to a runtime of its own, with this chip and an empty memory, which keeps
// what its kernels did. Sessions of other threads and the process's runtime do not notice.
class Session {
 public:
  Session(const hj_target& chip, const RunOptions& how);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::vector<std::unique_ptr<Run>>& runs() { return own_.runs; }

 private:
  Runtime own_;
  Runtime* before_;
  uint64_t context_before_;
};

uint64_t id(const void* handle);
void* handle_of(uint64_t id);

extern thread_local uint64_t thread_context;

// What a call needs: nothing but the process (it works with a lost device too), the device, or a context of the thread.
enum class Needs { process, device, context };

// Runs the body of one ACL function: under the lock, with what goes wrong turned into a code and the thread's text.
aclError entry(const char* function, Needs needs, const std::function<void(Runtime&)>& body);

// Throws INVALID_PARAM when null.
void need(const void* pointer, const char* name);

}  // namespace hajax::emulator::acl

#endif  // HAJAX_NATIVE_EMULATOR_ACL_RUNTIME_H_
