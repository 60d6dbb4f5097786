// The batches that a session trains on: settings of the loader and of the feed, by its config.
#pragma once

#include "lacuna/train/batch_feed.h"
#include "lacuna/train/session.h"

namespace lacuna {

// The samples of the split's training part.
RungSource training_source(const Session& session);
LoaderSettings training_order(const Session& session);
// With the samples' weights where the config names a column.
FeedOptions training_feed(const Session& session);

}  // namespace lacuna
