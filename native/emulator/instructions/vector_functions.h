// What a lane of the arithmetic instructions computes, before the rounding of vector_elements.h. V is the wide type.
//
// Instructions of two operations round (and for fp16 saturate) after the first one too, as the documents show for their
// intermediate results; with fp16 factors and an fp32 sum the product is exact.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_FUNCTIONS_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_FUNCTIONS_H_

#include <stdint.h>

#include <type_traits>

#include "native/emulator/instructions/vector_elements.h"
#include "native/emulator/instructions/vector_math.h"

namespace hajax::emulator {

// `value` gives a lane's result before its rounding to the destination's type. A function of two operations gives
// instead Step, the type that holds the first one's result, `first`, and `second`, which gets that result and the
// operands.
struct LaneFunction {
  using Step = void;
  bool counts = true;  // false when a scalar operand is not finite: then nothing finite was clamped
};

// A NaN operand gives NaN; +0 is larger than -0.
template <typename V>
V larger(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    V result = a > b ? a : b;
    result = a == b ? float_of(bits_of(a) & bits_of(b)) : result;
    return a != a ? a : result;  // a NaN in b fell through the comparisons
  } else {
    return a > b ? a : b;
  }
}

template <typename V>
V smaller(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    V result = a < b ? a : b;
    result = a == b ? float_of(bits_of(a) | bits_of(b)) : result;
    return a != a ? a : result;
  } else {
    return a < b ? a : b;
  }
}

// -0 becomes +0, NaN stays.
template <typename V>
V rectified(V value) {
  return value <= 0 ? V{} : value;
}

namespace lane {

struct add : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return a + b;
  }
};
struct sub : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return a - b;
  }
};
struct mul : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return a * b;
  }
};
struct div : LaneFunction {
  float value(float a, float b) const { return a / b; }
};
struct max : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return larger(a, b);
  }
};
struct min : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return smaller(a, b);
  }
};
struct bit_and : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return static_cast<V>(a & b);
  }
};
struct bit_or : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return static_cast<V>(a | b);
  }
};
struct add_relu : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return rectified(a + b);
  }
};
struct sub_relu : LaneFunction {
  template <typename V>
  V value(V a, V b) const {
    return rectified(a - b);
  }
};

// src0 * src1 + dst, src0 * dst + src1. T: the destination's type; the factors may be narrower.
template <typename T>
struct multiply_add : LaneFunction {
  using Step = T;
  float first(float a, float b, float) const { return a * b; }
  float second(float product, float, float, float sum) const { return product + sum; }
};
template <typename T>
struct multiply_dst : LaneFunction {
  using Step = T;
  float first(float a, float, float b) const { return a * b; }
  float second(float product, float, float sum, float) const { return product + sum; }
};
template <typename T>
struct multiply_dst_relu : multiply_dst<T> {
  float second(float product, float, float sum, float) const { return rectified(product + sum); }
};

// The sum, difference or product as T, then to an 8-bit integer or to fp16. To integers: to nearest even.
template <typename V>
auto to_integer(V value) {
  if constexpr (std::is_floating_point_v<V>) {
    return round_even(static_cast<double>(value));
  } else {
    return value;
  }
}
struct multiply_convert : LaneFunction {
  using Step = Half;
  float first(float a, float b) const { return a * b; }
  double second(float product, float, float) const { return to_integer(product); }
};
template <typename T>
struct add_relu_convert : LaneFunction {
  using Step = T;
  template <typename V>
  V first(V a, V b) const {
    return a + b;
  }
  template <typename V>
  auto second(V sum, V, V) const {
    if constexpr (std::is_same_v<T, float>) {
      return rectified(sum);
    } else {
      return to_integer(rectified(sum));
    }
  }
};
template <typename T>
struct sub_relu_convert : add_relu_convert<T> {
  template <typename V>
  V first(V a, V b) const {
    return a - b;
  }
};

// int32 sum times the fp16 scale of the register: exact in double but for the last rounding.
struct add_scale_relu : LaneFunction {
  using Step = int32_t;
  double scale = 1;
  int64_t first(int64_t a, int64_t b) const { return a + b; }
  double second(int64_t sum, int64_t, int64_t) const { return rectified(static_cast<double>(sum) * scale); }
};

}  // namespace lane
}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_FUNCTIONS_H_
