// The fused delta-rule kernel: every mechanism, order and layout is a plan (hajax/abi/plan.h) that it walks.
// Arrays are those of tensors.def; `call` is an hj_npu_call that the host has made.
#include "native/ascend/interpreted.h"
#include "native/ascend/machine.h"

extern "C" __global__ __aicore__ void hajax_delta_rule(GM_ADDR plan, GM_ADDR call, GM_ADDR query, GM_ADDR key,
                                                       GM_ADDR value, GM_ADDR log_decay, GM_ADDR beta, GM_ADDR erase,
                                                       GM_ADDR state_in, GM_ADDR output, GM_ADDR state_out,
                                                       GM_ADDR workspace) {
  AscendC::InitSocState();
  GM_ADDR tensors[hajax::ascend::kTensors] = {query, key,      value,  log_decay, beta,
                                              erase, state_in, output, state_out, workspace};
  hajax::ascend::Machine<hajax::ascend::Interpreted> machine;
  machine.Run(plan, call, tensors);
}
