// The program as one rank of several, inside a Python process that torchrun or srun has started and
// torch.distributed has connected (python/lacuna/_ranks.py).
#pragma once

#include "lacuna/train/group.h"

namespace lacuna::cli {

// The ranks that this process is one of; Group::alone() where nobody said otherwise.
Group& ranks();

}  // namespace lacuna::cli

// What Python calls.
extern "C" {
// The program with these words, as a rank of the process group of this name, which sums over NCCL
// what lies on GPUs, or over gloo. Gives its exit code.
int lacuna_main(int argc, char** argv, const char* group, int rank, int world, int local_rank,
                bool is_nccl);
// From another thread, while lacuna_main() runs: a rank has gone; see lose_rank().
void lacuna_lose_rank(const char* words);
}
