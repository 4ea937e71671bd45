// CRC-32 as zlib computes it: reflected, polynomial 0x04c11db7, all bits set before and inverted after.
#ifndef HAJAX_NATIVE_ASCEND_HOST_CHECKSUM_H_
#define HAJAX_NATIVE_ASCEND_HOST_CHECKSUM_H_

#include <stdint.h>

#include <array>

namespace hajax::ascend::host {

inline constexpr std::array<uint32_t, 256> kCrcOfByte = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
    table[byte] = value;
  }
  return table;
}();

// Of some bytes behind those whose checksum is `before`.
inline uint32_t crc32(const uint8_t* bytes, int64_t count, uint32_t before = 0) {
  uint32_t value = ~before;
  for (int64_t i = 0; i < count; ++i) value = kCrcOfByte[(value ^ bytes[i]) & 0xff] ^ (value >> 8);
  return ~value;
}

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_CHECKSUM_H_
