#include "lacuna/load/session_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 3> kMixNames = {"proportional", "balanced", "weighted"};

// A stream of random numbers for one round of one session.
uint64_t session_stream(uint32_t session, uint64_t round) {
  return mix64(round + 1) ^ mix64(~uint64_t(session));
}

uint64_t session_slice(uint64_t size, uint32_t world, uint32_t rank) {
  return size / world * rank + std::min<uint64_t>(rank, size % world);
}

}  // namespace

std::string_view name(SessionMix mix) { return kMixNames[size_t(mix)]; }

SessionMix session_mix_from_name(std::string_view name) {
  for (size_t i = 0; i < kMixNames.size(); ++i)
    if (kMixNames[i] == name) return SessionMix(i);
  throw Error("there is no mix of sessions '{}'; there are: {}", name, fmt::join(kMixNames, ", "));
}

// Draws windows in proportion to their weights: the block by prefix sums, the window by adding up
// those of the block.
struct SessionOrder::Column {
  static constexpr uint64_t kBlock = 256;

  std::shared_ptr<const std::vector<float>> weights;
  std::vector<std::vector<double>> sums;  // of each session [blocks + 1]

  Column(std::shared_ptr<const std::vector<float>> given, std::span<const uint64_t> first)
      : weights(std::move(given)) {
    if (weights->size() != first.back())
      throw Error("a column of {} weights for {} windows", weights->size(), first.back());
    for (size_t s = 0; s + 1 < first.size(); ++s) {
      std::vector<double>& sum = sums.emplace_back(1, 0.0);
      for (uint64_t w = first[s]; w < first[s + 1]; ++w) {
        const float weight = (*weights)[w];
        if (!(weight >= 0) || !std::isfinite(weight))
          throw Error("window {} has weight {}; it must be 0 or more, and finite", w, weight);
        if ((w - first[s]) % kBlock == 0) sum.push_back(sum.back());
        sum.back() += double(weight);
      }
    }
  }

  double total(size_t session) const { return sums[session].back(); }

  uint64_t draw(uint32_t session, uint64_t begin, uint64_t end, double uniform) const {
    const std::vector<double>& sum = sums[session];
    const double wanted = uniform * sum.back();
    const auto behind = std::upper_bound(sum.begin(), sum.end(), wanted);
    const size_t block =
        size_t(std::clamp<ptrdiff_t>(behind - sum.begin() - 1, 0, ptrdiff_t(sum.size()) - 2));
    const uint64_t stop = std::min(end, begin + (block + 1) * kBlock);
    double reached = sum[block];
    uint64_t last = begin + block * kBlock;  // that has any weight: rounding may leave a rest
    for (uint64_t w = last; w < stop; ++w) {
      if ((*weights)[w] == 0) continue;
      last = w;
      reached += double((*weights)[w]);
      if (reached > wanted) break;
    }
    return last;
  }
};

SessionOrder::SessionOrder(std::vector<uint64_t> first, const SessionOrderSettings& settings)
    : first_(std::move(first)), settings_(settings) {
  LACUNA_ASSERT(!first_.empty() && std::ranges::is_sorted(first_));
  const size_t sessions = first_.size() - 1;
  const auto& [global_batch, seed, shuffled, mix, weights, one_session, steps, column, rank,
               world] = settings_;
  if (windows() == 0) throw Error("no windows to load: is the chosen part of the split empty?");
  if (rank >= world) throw Error("rank {} of {}: ranks go from 0 to world size - 1", rank, world);
  if (global_batch < world)
    throw Error("global batch {} gives some of the {} ranks nothing; it must be {} or more",
                global_batch, world, world);
  if (mix == SessionMix::weighted ? weights.size() != sessions : !weights.empty())
    throw Error(
        "{} weights for {} sessions with mix {}; weighted needs one a session, the others "
        "none",
        weights.size(), sessions, name(mix));
  if (column) column_ = std::make_shared<Column>(column, first_);

  std::vector<double> parts(sessions, 0.0);
  for (size_t s = 0; s < sessions; ++s) {
    const uint64_t count = first_[s + 1] - first_[s];
    const double amount = column_ ? column_->total(s) : double(count);
    if (mix == SessionMix::weighted) {
      parts[s] = weights[s];
      if (weights[s] > 0 && !(amount > 0))
        throw Error("session {} has weight {} but no window to draw", s, weights[s]);
    } else if (amount > 0) {
      parts[s] = mix == SessionMix::balanced ? 1.0 : amount;
    }
  }
  std::vector<uint64_t> shares(sessions);
  if (mix == SessionMix::proportional && !column_)
    for (size_t s = 0; s < sessions; ++s) shares[s] = first_[s + 1] - first_[s];
  else
    shares = shares_from_weights(parts);
  shares_ = std::make_shared<SessionShares>(shares);

  batches_ = steps > 0 ? steps : (windows() + global_batch - 1) / global_batch;
  samples_ = steps > 0 || one_session ? batches_ * global_batch : windows();
  Hasher hasher;
  hasher.add(std::as_bytes(std::span(first_)));
  hasher.add(std::as_bytes(std::span(shares_->shares())));
  if (column) hasher.add(std::as_bytes(std::span(*column)));
  words_ = fmt::format("{}, {} sessions, {} windows{}{}, {}", name(mix), sessions, windows(),
                       one_session ? ", one session a batch" : "",
                       column ? ", drawn by a column" : "", hex(hasher.value()));
}

uint64_t SessionOrder::largest_batch() const {
  const uint64_t size = std::min(settings_.global_batch, samples_);
  return session_slice(size, settings_.world, settings_.rank + 1) -
         session_slice(size, settings_.world, settings_.rank);
}

void SessionOrder::batch(uint64_t epoch, uint64_t position, std::vector<uint64_t>& out) const {
  LACUNA_ASSERT(position < batches_);
  const uint64_t size =
      std::min(settings_.global_batch, samples_ - position * settings_.global_batch);
  const uint64_t begin = session_slice(size, settings_.world, settings_.rank);
  const uint64_t end = session_slice(size, settings_.world, settings_.rank + 1);
  std::vector<SessionDraw> draws;
  if (settings_.one_session) {
    shares_->draws(epoch * batches_ + position, 1, draws);
    const SessionDraw drawn = draws[0];
    draws.clear();
    for (uint64_t i = begin; i < end; ++i)
      draws.push_back({drawn.session, drawn.occurrence * settings_.global_batch + i});
  } else {
    shares_->draws(epoch * samples_ + position * settings_.global_batch + begin, end - begin,
                   draws);
  }

  struct Round {
    uint64_t number;
    Permutation permutation;
  };
  std::vector<std::optional<Round>> rounds(first_.size() - 1);
  out.clear();
  for (const auto& [session, occurrence] : draws) {
    const uint64_t first = first_[session], count = first_[session + 1] - first;
    if (column_) {
      Random random(settings_.seed, session_stream(session, occurrence));
      out.push_back(column_->draw(session, first, first + count, random.uniform()));
      continue;
    }
    const uint64_t number = occurrence / count, place = occurrence % count;
    std::optional<Round>& round = rounds[session];
    if (settings_.shuffled && (!round || round->number != number))
      round.emplace(Round{number, {count, settings_.seed, session_stream(session, number)}});
    out.push_back(first + (settings_.shuffled ? round->permutation(place) : place));
  }
}

LoaderState state_at(const SessionOrder& order, uint64_t epoch, uint64_t position) {
  const SessionOrderSettings& settings = order.settings();
  return {.seed = settings.seed,
          .epoch = epoch,
          .position = position,
          .samples = order.samples(),
          .global_batch = settings.global_batch,
          .shuffled = settings.shuffled,
          .drawn = order.words()};
}

void check_state(const LoaderState& state, const SessionOrder& order) {
  if (state.drawn != order.words())
    throw Error(
        "the loader's state was saved over other sessions, weights or another mix ({}) than here "
        "({}); go on with the same split and the same settings of the mix",
        state.drawn.empty() ? "none" : state.drawn, order.words());
  const LoaderState here = state_at(order, 0, 0);
  if (state.global_batch != here.global_batch)
    throw Error(
        "the loader's state was saved with a global batch of {}, here it is {}; choose batch and "
        "number of ranks so that they agree",
        state.global_batch, here.global_batch);
  if (state.samples != here.samples)
    throw Error("the loader's state was saved with epochs of {} windows, here they have {}",
                state.samples, here.samples);
  if (state.shuffled != here.shuffled)
    throw Error("the loader's state was saved in {} order, this loader is {}",
                state.shuffled ? "shuffled" : "sequential",
                here.shuffled ? "shuffled" : "sequential");
  if (state.position > order.batches())
    throw Error("the loader's state stands at batch {}, but an epoch has {}", state.position,
                order.batches());
}

SessionOrder with_seed(const SessionOrder& order, uint64_t seed) {
  SessionOrder other = order;
  other.settings_.seed = seed;
  return other;
}

std::vector<double> weights_of_subjects(const std::map<std::string, double>& weights,
                                        std::span<const std::string> subject_of_session,
                                        std::span<const uint64_t> first) {
  LACUNA_ASSERT(first.size() == subject_of_session.size() + 1);
  std::map<std::string, uint64_t> windows;
  for (size_t s = 0; s < subject_of_session.size(); ++s)
    windows[subject_of_session[s]] += first[s + 1] - first[s];
  for (const auto& [subject, weight] : weights)
    if (!windows.contains(subject)) {
      std::set<std::string> known(subject_of_session.begin(), subject_of_session.end());
      throw Error("a weight is given for subject '{}'; there are: {}", subject,
                  fmt::join(known, ", "));
    }
  std::vector<double> result;
  for (size_t s = 0; s < subject_of_session.size(); ++s) {
    const auto found = weights.find(subject_of_session[s]);
    const uint64_t all = windows[subject_of_session[s]];
    result.push_back(found == weights.end() || all == 0
                         ? 0.0
                         : found->second * double(first[s + 1] - first[s]) / double(all));
  }
  return result;
}

std::vector<double> weights_of_names(std::span<const std::pair<std::string, double>> weights,
                                     std::span<const std::string> sessions,
                                     std::span<const std::string> subject_of_session,
                                     std::span<const uint64_t> first) {
  std::vector<double> result(sessions.size(), 0.0);
  std::map<std::string, double> of_subjects;
  for (const auto& [name, weight] : weights) {
    const auto found = std::ranges::find(sessions, name);
    if (found == sessions.end())
      of_subjects[name] = weight;
    else
      result[size_t(found - sessions.begin())] = weight;
  }
  const std::vector<double> more = weights_of_subjects(of_subjects, subject_of_session, first);
  for (size_t s = 0; s < result.size(); ++s) result[s] += more[s];
  return result;
}

std::vector<uint64_t> fixed_windows(std::span<const uint64_t> first, uint64_t count,
                                    uint64_t seed) {
  std::vector<uint64_t> chosen;
  const uint64_t all = first.back();
  for (uint32_t s = 0; s + 1 < first.size(); ++s) {
    const uint64_t here = first[s + 1] - first[s];
    if (here == 0) continue;
    const double share = double(count) * double(here) / double(all);
    const uint64_t some = std::clamp<uint64_t>(uint64_t(std::llround(share)), 1, here);
    const Permutation permutation(here, seed, session_stream(s, 0));
    for (uint64_t i = 0; i < some; ++i) chosen.push_back(first[s] + permutation(i));
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace lacuna
