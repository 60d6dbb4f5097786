// `lacuna-torch`: what needs torch, and what the process needs for it.
#include "cli/torch_commands.h"

#include <c10/util/Logging.h>
#include <malloc.h>

#include "cli/bench.h"
#include "cli/commands.h"

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

void add_torch_commands(CLI::App& app) {
  keep_freed_memory();
  shorten_torch_errors();
  add_compare(app);
  add_evaluate(app);
  add_export(app);
  add_predict(app);
  add_profile(app);
  add_train(app);
}

void add_torch_benches(CLI::App& bench) {
  add_bench_criteria(bench);
  add_bench_step(bench);
}

void need_torch(const std::string&) {}

}  // namespace lacuna::cli
