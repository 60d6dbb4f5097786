// Ranks that torch.distributed has started and connected: the process group that Python made,
// reached by its name through torch's dispatcher (functional collectives), so that gloo and NCCL
// stay torch's affair. python/lacuna/_ranks.py makes the group, and calls lacuna_main()
// (cli/torch/ranks.h).
//
// A sum has the same bits on every rank, and the same in every run with as many ranks: both
// backends add in an order that follows from the number of ranks and the size.
#pragma once

#include <memory>
#include <string>

#include "lacuna/train/group.h"

namespace lacuna {

struct ProcessGroupPlace {
  std::string name;  // of the process group, as torch.distributed registered it
  uint32_t rank = 0, world = 1, local_rank = 0;
  bool is_nccl = false;  // what lies on GPUs is summed there, also in a recorded step
};
// A group of one rank calls collectives as several would, which is how NCCL is tried with one GPU.
// Throws Error where torch has no functional collectives: torch.distributed must be imported.
std::unique_ptr<Group> join_process_group(const ProcessGroupPlace& place);

}  // namespace lacuna
