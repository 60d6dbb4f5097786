#include "lacuna/load/loader.h"

#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/stop_host.h"

namespace lacuna {

void throw_if_stopped_meanwhile() {
  if (stop_detail::state.load(std::memory_order_relaxed) == 1) throw_if_stopped();
  if (is_stop_asked_by_host()) throw Stopped();
}

LoaderState state_at(const Order& order, uint64_t epoch, uint64_t position) {
  const OrderSettings& settings = order.settings();
  return {.seed = settings.seed,
          .epoch = epoch,
          .position = position,
          .samples = order.samples(),
          .global_batch = settings.global_batch,
          .shuffled = settings.shuffled};
}

Json to_json(const LoaderState& state) {
  Json json = {{"seed", state.seed},
               {"epoch", state.epoch},
               {"position", state.position},
               {"samples", state.samples},
               {"global_batch", state.global_batch},
               {"shuffled", state.shuffled}};
  if (!state.drawn.empty()) json["drawn"] = state.drawn;
  return json;
}

LoaderState loader_state_from_json(const Json& json) {
  const auto number = [&](const char* member) {
    const auto found = json.find(member);
    if (found == json.end() || !found->is_number_unsigned()) {
      throw Error("loader state: '{}' is missing or not a whole number", member);
    }
    return found->get<uint64_t>();
  };
  const auto shuffled = json.find("shuffled");
  if (shuffled == json.end() || !shuffled->is_boolean()) {
    throw Error("loader state: 'shuffled' is missing or neither true nor false");
  }
  std::string drawn;
  if (const auto found = json.find("drawn"); found != json.end()) {
    if (!found->is_string()) throw Error("loader state: 'drawn' is not text");
    drawn = found->get<std::string>();
  }
  return {number("seed"),
          number("epoch"),
          number("position"),
          number("samples"),
          number("global_batch"),
          shuffled->get<bool>(),
          drawn};
}

void check_state(const LoaderState& state, const Order& order) {
  if (!state.drawn.empty())
    throw Error("the loader's state was saved over sessions ({}), here are none", state.drawn);
  if (state.samples != order.samples()) {
    throw Error("the loader's state was saved over {} samples, here are {}; use the same split",
                state.samples, order.samples());
  }
  if (state.global_batch != order.settings().global_batch) {
    throw Error(
        "the loader's state was saved with a global batch of {}, here it is {}; choose batch and "
        "number of ranks so that they agree",
        state.global_batch, order.settings().global_batch);
  }
  if (state.shuffled != order.settings().shuffled) {
    throw Error("the loader's state was saved in {} order, this loader is {}",
                state.shuffled ? "shuffled" : "sequential",
                order.settings().shuffled ? "shuffled" : "sequential");
  }
  if (state.position > order.batches()) {
    throw Error("the loader's state stands at batch {}, but an epoch has {}", state.position,
                order.batches());
  }
}

}  // namespace lacuna
