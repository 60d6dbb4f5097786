#include "lacuna/ops/cuda/cuda_error.h"

#include "lacuna/core/error.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

void throw_error(const std::string& message) { throw Error(message); }

void throw_cuda_error(const char* what, const char* words) { throw Error("{}: {}", what, words); }

void check_cuda_error_word(int32_t word) {
  if (word & kBadRemovedPtr) {
    throw Error("ptr: must start at 0, not decrease, and stay within removed");
  }
  if (word & kBadRemovedIndex) {
    throw Error("removed: holds an index that is not a node of the graph");
  }
  if (word & kConeTooLong) {
    throw Error("a batch changes more rows of a layer than there is room for");
  }
  if (word != 0) throw Error("a kernel reported error {}", word);
}

}  // namespace lacuna
