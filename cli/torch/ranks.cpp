#include "cli/torch/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "cli/program.h"
#include "cli/signals.h"
#include "lacuna/train/ranks/process_group.h"

namespace lacuna::cli {
namespace {

// The subcommands that share their work out.
constexpr std::array kOfRanks = {"evaluate", "predict", "profile", "train"};

Group* joined = nullptr;

}  // namespace

Group& ranks() { return joined ? *joined : Group::alone(); }

}  // namespace lacuna::cli

extern "C" int lacuna_main(int argc, char** argv, const char* group, int rank, int world,
                           int local_rank, bool is_nccl) {
  using namespace lacuna;
  if (argc < 2 || !std::ranges::count(cli::kOfRanks, std::string_view(argv[1]))) {
    if (rank == 0)
      fmt::print(stderr,
                 "error: of the subcommands only {} share their work among ranks; call `lacuna {}` "
                 "alone\n",
                 fmt::join(cli::kOfRanks, ", "), argc < 2 ? "..." : argv[1]);
    return 2;
  }
  const std::unique_ptr<Group> ours =
      join_process_group({group, uint32_t(rank), uint32_t(world), uint32_t(local_rank), is_nccl});
  cli::joined = ours.get();
  const int code = cli::run_program(argc, argv);
  cli::joined = nullptr;
  return code;
}

extern "C" void lacuna_lose_rank(const char* words) { lacuna::lose_rank(words); }
