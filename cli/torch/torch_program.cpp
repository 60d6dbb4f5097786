// `lacuna-torch`: what the process needs for torch.
#include <c10/util/Logging.h>
#include <malloc.h>

#include "cli/torch_commands.h"

namespace lacuna::cli {
namespace {

// Tensors of many megabytes come and go in every step of a training. Memory that was freed stays
// with the program, so that it is not cleared and mapped page by page again: a step on two cores at
// yeast size takes half the time.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

// They come without the stack of torch's own functions: what is left is a line.
void shorten_torch_errors() {
  c10::SetStackTraceFetcher([] { return std::string(); });
}

}  // namespace

bool is_built_with_torch() { return true; }

void prepare_process() {
  keep_freed_memory();
  shorten_torch_errors();
}

void need_torch(const std::string&) {}

}  // namespace lacuna::cli
