#include "lacuna/train/bad_batch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"

namespace lacuna {

void throw_bad_batch(const Session& session, const fs::path& run, uint64_t step, uint64_t epoch,
                     std::span<const uint64_t> samples) {
  const fs::path file = run / "bad_batch.json";
  Json details = {{"step", step},
                  {"epoch", epoch},
                  {"samples", std::vector<uint64_t>(samples.begin(), samples.end())},
                  {"removed", Json::array()}};
  const RemovedReader reader(session.screen.samples());
  std::vector<uint32_t> genes;
  for (const uint64_t sample : samples) {
    reader.read(sample, genes);
    Json names = Json::array();
    for (const uint32_t gene : genes) names.push_back(session.screen.graph().genes().names[gene]);
    details["removed"].push_back(names);
  }
  write_sealed_json(file, details);
  throw Error(
      "the loss is not finite at step {} (epoch {}), samples {}{}; the batch is saved in {}; try "
      "a smaller train.lr, train.clip, or train.precision=f32, or look at these samples' labels",
      step, epoch + 1, fmt::join(samples.first(std::min<size_t>(samples.size(), 8)), ", "),
      samples.size() > 8 ? ", ..." : "", file.string());
}

}  // namespace lacuna
