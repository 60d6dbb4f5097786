#include "lacuna/train/training_feed.h"

namespace lacuna {

RungSource training_source(const Session& session) {
  ScreenSourceOptions options{.selection = session.samples(Part::train)};
  const std::string& column = session.config.train.weight_column;
  if (!column.empty()) {
    check_weights(session.screen.samples(), column);
    options.columns = {column};
  }
  return RungSource(session.screen, session.masks, uint64_t(session.config.train.batch), options);
}

LoaderSettings training_order(const Session& session) {
  const TrainOptions& options = session.config.train;
  return {.order = {.global_batch = uint64_t(options.batch), .seed = options.seed},
          .threads = int(options.threads),
          .prefetch = session.masks.prefetch(int(options.threads))};
}

FeedOptions training_feed(const Session& session) {
  return {.device = session.device(),
          .batch = session.config.train.batch,
          .widest = widest_removal(session.screen.samples()),
          .has_weights = !session.config.train.weight_column.empty()};
}

}  // namespace lacuna
