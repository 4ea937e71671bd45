// dst = a + b and the like: the whole length of dst (of a, for comparisons), by the calls of the same meaning.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_OPERATORS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_OPERATORS_H_

#include "native/emulator/ascendc/common/compare.h"
#include "native/emulator/ascendc/common/vector_binary.h"

namespace AscendC {

#define HAJAX_OPERATOR(Class, Call)                                                             \
  template <typename T>                                                                         \
  class Class {                                                                                 \
   public:                                                                                      \
    Class(const LocalTensor<T>& src0, const LocalTensor<T>& src1) : src0_(src0), src1_(src1) {} \
    HAJAX_API void Process(const LocalTensor<T>& dst) const {                                   \
      Call(dst, src0_, src1_, static_cast<int32_t>(dst.GetSize()));                             \
    }                                                                                           \
                                                                                                \
   private:                                                                                     \
    LocalTensor<T> src0_;                                                                       \
    LocalTensor<T> src1_;                                                                       \
  };
HAJAX_OPERATOR(SymbolOverrideAdd, Add)
HAJAX_OPERATOR(SymbolOverrideSub, Sub)
HAJAX_OPERATOR(SymbolOverrideMul, Mul)
HAJAX_OPERATOR(SymbolOverrideDiv, Div)
HAJAX_OPERATOR(SymbolOverrideOr, Or)
HAJAX_OPERATOR(SymbolOverrideAnd, And)
#undef HAJAX_OPERATOR

template <typename T>
class SymbolOverrideCompare {
 public:
  SymbolOverrideCompare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode)
      : src0_(src0), src1_(src1), mode_(mode) {}
  template <typename U>
  HAJAX_API void Process(const LocalTensor<U>& dst) const {
    Compare(dst, src0_, src1_, mode_, src0_.GetSize());
  }

 private:
  LocalTensor<T> src0_;
  LocalTensor<T> src1_;
  CMPMODE mode_;
};

template <typename T>
HAJAX_API void LocalTensor<T>::operator=(const SymbolOverrideCompare<float>& expression) {
  expression.Process(*this);
}
template <typename T>
HAJAX_API void LocalTensor<T>::operator=(const SymbolOverrideCompare<half>& expression) {
  expression.Process(*this);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_OPERATORS_H_
