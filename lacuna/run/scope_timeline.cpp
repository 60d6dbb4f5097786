#include "lacuna/run/scope_timeline.h"

#include <chrono>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

double system_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

}  // namespace

ScopeTimeline::ScopeTimeline(std::function<double()> now, std::function<void()> on_border)
    : now_(now ? std::move(now) : system_ms), on_border_(std::move(on_border)) {}

ScopeTimeline::~ScopeTimeline() {
  if (scope_listener == this) scope_listener = nullptr;
}

void ScopeTimeline::start() {
  LACUNA_ASSERT(scope_listener == nullptr);
  open_.clear();
  borders_.clear();
  ways_.clear();
  begin_ = now_();
  add_border();
  scope_listener = this;
}

void ScopeTimeline::stop() {
  LACUNA_ASSERT(scope_listener == this && open_.empty());
  scope_listener = nullptr;
  add_border();
}

void ScopeTimeline::enter(const char* name) {
  open_.push_back(name);
  add_border();
}

void ScopeTimeline::leave() {
  LACUNA_ASSERT(!open_.empty());
  open_.pop_back();
  add_border();
}

void ScopeTimeline::add_border() {
  borders_.push_back({now_() - begin_, open_.empty() ? nullptr : open_.back()});
  if (on_border_) on_border_();
}

std::map<std::string, double> time_by_owner(std::span<const ScopeTimeline::Border> borders,
                                            std::span<const double> times) {
  LACUNA_ASSERT(borders.size() == times.size());
  std::map<std::string, double> result;
  for (size_t i = 0; i + 1 < borders.size(); ++i)
    result[borders[i].owner ? borders[i].owner : ""] += times[i + 1] - times[i];
  return result;
}

std::map<std::string, double> time_by_owner(std::span<const ScopeTimeline::Border> borders) {
  std::vector<double> times;
  for (const auto& border : borders) times.push_back(border.ms);
  return time_by_owner(borders, times);
}

}  // namespace lacuna
