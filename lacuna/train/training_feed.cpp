#include "lacuna/train/training_feed.h"

namespace lacuna {

RungSource training_source(const Session& session) {
  return RungSource(session.screen, session.masks, uint64_t(session.config.train.batch),
                    {.selection = session.samples(Part::train)});
}

LoaderSettings training_order(const Session& session) {
  const TrainOptions& options = session.config.train;
  return {.order = {.global_batch = uint64_t(options.batch), .seed = options.seed},
          .threads = int(options.threads),
          .prefetch = session.masks.prefetch(int(options.threads))};
}

FeedOptions training_feed(const Session& session) {
  FeedOptions options = {.device = session.device(),
                         .batch = session.config.train.batch,
                         .widest = widest_removal(session.screen.samples())};
  const std::string& weights = session.config.train.weight_column;
  if (!weights.empty())
    options.weights = weights_of(session.screen.samples(), weights, session.samples(Part::train));
  return options;
}

}  // namespace lacuna
