// Runs a dumped call without Python: `hajax_replay FILE` prints a checksum, `hajax_replay --fuzz N [SEED]` breaks plans
// and bounds at random. Built with -DHAJAX_SANITIZE=ON it is the target of the sanitizers.
//
// A dump, in the machine's byte order: 8 bytes "HJDUMP01"; int64 plan bytes, batch, tokens, sequences; float scale,
// l2norm_eps; the plan; then query, key, value, log_decay, beta, state_in, bounds, each contiguous as hajax.h has them;
// log_decay is [B, T, Hv] also without a decay.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "native/cpu/lists.h"

namespace {

using namespace hajax::cpu;
using Bytes = std::vector<char>;

constexpr char kMagic[] = "HJDUMP01";
constexpr size_t kMagicBytes = sizeof kMagic - 1;
constexpr int64_t kMost = int64_t{1} << 34;  // bytes; a dump past this is taken for broken
constexpr int64_t kMostScratch = int64_t{1}
                                 << 28;  // bytes; a plan that asks for more gets none, and the call is refused
constexpr size_t kAlignment = 64;

struct Dump {
  Bytes plan;
  int64_t batch = 0, tokens = 0, sequences = 0;
  float scale = 1.0f, l2norm_eps = -1.0f;
  Bytes query, key, value, log_decay, beta, state_in, bounds;
  int64_t output_bytes = 0;
};

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "hajax_replay: %s\n", text.c_str());
  std::exit(2);
}

int64_t element_bytes(int32_t dtype) { return dtype == kDtype_float32 ? kDtypeBytes_float32 : kDtypeBytes_float16; }

// What the buffers of a call of this plan hold.
void size_buffers(const hj_cpu_plan& p, Dump* d) {
  const double rough =
      static_cast<double>(d->batch) * static_cast<double>(d->tokens + d->sequences) * p.value_heads * 256.0 * 256.0;
  const bool sane = d->batch >= 0 && d->tokens >= 0 && d->sequences >= 1 && p.key_heads > 0 && p.value_heads > 0 &&
                    p.key_dim > 0 && p.value_dim > 0 && p.key_dim <= 256 && p.value_dim <= 256 &&
                    rough < 64.0 * static_cast<double>(kMost);
  if (!sane) die("sizes: expected those of a small valid call, got others");
  const int64_t rows = d->batch * d->tokens;
  const auto bytes = [](int64_t n) { return static_cast<size_t>(n); };
  d->query.resize(bytes(rows * p.key_heads * p.key_dim * element_bytes(p.input_dtype)));
  d->key.resize(d->query.size());
  d->value.resize(bytes(rows * p.value_heads * p.value_dim * element_bytes(p.input_dtype)));
  const int64_t channels = p.header.decay == kDecay_per_channel ? p.key_dim : 1;
  d->log_decay.resize(bytes(rows * p.value_heads * channels * 4));
  d->beta.resize(bytes(rows * p.value_heads * (p.header.strengths == 2 ? 2 : 1) * 4));
  d->state_in.resize(bytes(d->batch * d->sequences * p.value_heads * p.key_dim * p.value_dim * 4));
  d->bounds.resize(bytes(d->batch * (d->sequences + 1) * 4));
  d->output_bytes = rows * p.value_heads * p.value_dim * element_bytes(p.output_dtype);
}

Dump read_dump(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) die(std::string(path) + ": cannot be opened");
  const Bytes all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = 0;
  const auto take = [&](void* to, size_t count) {
    if (count > all.size() - at) die(std::string(path) + ": truncated at byte " + std::to_string(all.size()));
    std::memcpy(to, all.data() + at, count);
    at += count;
  };
  char magic[kMagicBytes];
  take(magic, kMagicBytes);
  if (std::memcmp(magic, kMagic, kMagicBytes) != 0) die(std::string(path) + ": not a dump");
  Dump d;
  int64_t plan_bytes = 0;
  take(&plan_bytes, sizeof plan_bytes);
  take(&d.batch, sizeof d.batch);
  take(&d.tokens, sizeof d.tokens);
  take(&d.sequences, sizeof d.sequences);
  take(&d.scale, sizeof d.scale);
  take(&d.l2norm_eps, sizeof d.l2norm_eps);
  if (plan_bytes != static_cast<int64_t>(sizeof(hj_cpu_plan))) die(std::string(path) + ": its plan has another size");
  d.plan.resize(sizeof(hj_cpu_plan));
  take(d.plan.data(), d.plan.size());
  hj_cpu_plan plan;
  std::memcpy(&plan, d.plan.data(), sizeof plan);
  size_buffers(plan, &d);
  for (Bytes* part : {&d.query, &d.key, &d.value, &d.log_decay, &d.beta, &d.state_in, &d.bounds})
    take(part->data(), part->size());
  return d;
}

// Exact-sized heap blocks, so that AddressSanitizer sees the first byte past each.
struct Run {
  int32_t status = 0;
  uint64_t checksum = 0;
  int64_t counters[HJ_COUNTERS] = {};
};

uint64_t mix(uint64_t hash, const Bytes& bytes) {  // FNV-1a
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

Run run(const Dump& d, int64_t scratch_bytes) {
  Bytes output(static_cast<size_t>(d.output_bytes));
  Bytes state(d.state_in.size());
  const size_t rounded = (static_cast<size_t>(scratch_bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* scratch = scratch_bytes > 0 ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (scratch != nullptr) std::memset(scratch, 0xff, static_cast<size_t>(scratch_bytes));
  hj_delta_call call = {};
  call.batch = d.batch;
  call.tokens = d.tokens;
  call.sequences = d.sequences;
  call.query = d.query.data();
  call.key = d.key.data();
  call.value = d.value.data();
  call.log_decay = reinterpret_cast<const float*>(d.log_decay.data());
  call.beta = reinterpret_cast<const float*>(d.beta.data());
  call.state_in = reinterpret_cast<const float*>(d.state_in.data());
  call.bounds = reinterpret_cast<const int32_t*>(d.bounds.data());
  call.output = output.data();
  call.state_out = reinterpret_cast<float*>(state.data());
  call.scratch = scratch;
  call.scratch_bytes = scratch_bytes;
  call.scale = d.scale;
  call.l2norm_eps = d.l2norm_eps;
  Run r;
  r.status = hajax_execute(d.plan.data(), static_cast<int64_t>(d.plan.size()), &call, nullptr, r.counters);
  r.checksum = mix(mix(0xcbf29ce484222325u, output), state);
  std::free(scratch);
  return r;
}

int64_t plan_scratch(const Dump& d) {
  hj_cpu_plan plan;
  std::memcpy(&plan, d.plan.data(), sizeof plan);
  const int64_t needed = hajax_cpu_scratch_bytes(d.plan.data(), static_cast<int64_t>(d.plan.size()));
  if (needed < 0 || plan.scratch_bytes < needed || plan.scratch_bytes > kMostScratch / plan.workers) return 0;
  return plan.scratch_bytes * plan.workers;
}

uint8_t digit(char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

template <class Pick>
hj_cpu_plan random_plan(const Pick& pick) {
  hj_cpu_plan p;
  std::memset(&p, 0, sizeof p);
  p.header.magic = HJ_PLAN_MAGIC;
  p.header.total_bytes = sizeof p;
  const char* digest = hajax_abi_digest();
  for (int i = 0; i < HJ_DIGEST_BYTES; ++i) {
    p.header.abi_digest[i] = static_cast<uint8_t>(digit(digest[2 * i]) << 4 | digit(digest[2 * i + 1]));
  }
  p.header.backend = kBackend_cpu;
  p.header.decay = pick(3);
  p.header.delta = pick(2);
  p.header.strengths = p.header.delta == 1 ? 1 + pick(2) : 1;
  do p.isa = pick(4);
  while ((hajax_cpu_isas() >> p.isa & 1) == 0);
  p.input_dtype = pick(3);
  p.output_dtype = pick(3);
  p.key_heads = 1 + pick(2);
  p.group = 1 + pick(2);
  p.value_heads = p.key_heads * p.group * (1 + pick(2));
  p.key_dim = 8 * (1 + pick(10));
  p.value_dim = 8 * (1 + pick(10));
  p.chunk = 16 << pick(4);
  p.panel = hajax_cpu_panel(p.isa);
  p.column_blocks = 1 + pick((p.value_dim + p.panel - 1) / p.panel);
  p.token_steps = pick(3) * 3;
  p.workers = 1 + pick(3);
  p.scratch_bytes = hajax_cpu_scratch_bytes(&p, sizeof p);
  return p;
}

// Every second case is left valid and must run; the rest has a few bytes of plan or bounds flipped and must be refused
// or run, never crash.
int fuzz(int64_t cases, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  int64_t refused = 0;
  for (int64_t i = 0; i < cases; ++i) {
    Dump d;
    const hj_cpu_plan plan = random_plan(pick);
    d.plan.resize(sizeof plan);
    std::memcpy(d.plan.data(), &plan, sizeof plan);
    d.batch = 1 + pick(2);
    d.tokens = pick(2) == 0 ? pick(12) : pick(200);
    d.sequences = 1 + pick(4);
    d.l2norm_eps = pick(2) == 0 ? -1.0f : 1e-6f;
    size_buffers(plan, &d);
    for (Bytes* part : {&d.query, &d.key, &d.value}) {
      for (char& c : *part) c = static_cast<char>(random());
    }
    const bool any_gates = pick(4) == 0;  // any bits, else values that gates may have
    for (Bytes* part : {&d.log_decay, &d.beta}) {
      for (size_t at = 0; at < part->size(); at += sizeof(float)) {
        const float drawn = static_cast<float>(pick(1000)) * (part == &d.beta ? 1e-3f : -1e-2f);
        const uint32_t bits = static_cast<uint32_t>(random());
        std::memcpy(part->data() + at, any_gates ? static_cast<const void*>(&bits) : &drawn, sizeof(float));
      }
    }
    for (int64_t b = 0; b < d.batch; ++b) {
      int32_t bound = d.tokens > 0 ? pick(3) % static_cast<int32_t>(d.tokens) : 0;
      for (int64_t n = 0; n <= d.sequences; ++n) {
        std::memcpy(d.bounds.data() + (b * (d.sequences + 1) + n) * 4, &bound, 4);
        bound += pick(static_cast<int32_t>(d.tokens) - bound + 1);
      }
    }
    const bool broken = i % 2 == 1;
    if (broken) {
      Bytes& target = pick(3) == 0 ? d.bounds : d.plan;
      for (int32_t flips = 1 + pick(3); flips > 0; --flips) {
        // The middle of the plan is the digest, which would hide the rest.
        const size_t at = static_cast<size_t>(pick(static_cast<int32_t>(target.size())));
        if (&target == &d.plan && at >= 8 && at < 40 && pick(8) != 0) continue;
        target[at] = static_cast<char>(target[at] ^ (1 << pick(8)));
      }
      hj_cpu_plan changed;  // the buffers follow the changed plan where it is still one: the caller sizes them by it
      std::memcpy(&changed, d.plan.data(), sizeof changed);
      if (hajax_cpu_scratch_bytes(&changed, sizeof changed) >= 0) {
        if (static_cast<int64_t>(changed.value_heads) * changed.value_dim * d.tokens > 1 << 22) continue;
        size_buffers(changed, &d);
      }
    }
    const Run result = run(d, plan_scratch(d));
    refused += result.status != kStatus_ok ? 1 : 0;
    if (!broken && result.status != kStatus_ok) die("a valid case was refused: " + std::string(hajax_last_error()));
    if (result.status == kStatus_internal) die("internal: " + std::string(hajax_last_error()));
  }
  std::printf("fuzz: %lld cases, %lld refused, seed %u\n", static_cast<long long>(cases),
              static_cast<long long>(refused), seed);
  return 0;
}

int replay(const char* path) {
  const Dump d = read_dump(path);
  const Run result = run(d, plan_scratch(d));
  if (result.status != kStatus_ok) {
    std::fprintf(stderr, "status %d: %s\n", result.status, hajax_last_error());
    return 1;
  }
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(result.checksum));
#define COUNTER(number, name, unit, meaning) \
  std::printf("%s %lld\n", #name, static_cast<long long>(result.counters[number]));
#include "hajax/abi/counters.def"
#undef COUNTER
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count >= 3 && std::strcmp(arguments[1], "--fuzz") == 0) {
    return fuzz(std::atoll(arguments[2]), count > 3 ? static_cast<uint32_t>(std::atoll(arguments[3])) : 1);
  }
  if (count == 2) return replay(arguments[1]);
  std::fprintf(stderr, "usage: hajax_replay FILE | hajax_replay --fuzz CASES [SEED]\n");
  return 2;
}
