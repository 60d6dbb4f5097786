#include "lacuna/ladder/rung_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/host_copy.h"
#include "lacuna/masks/mask_sizes.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

struct RungMasks::State {
  Rung rung = Rung::kernel;
  MaskForm form = MaskForm::u8;      // of what is stored or held
  std::optional<MaskLayout> layout;  // u8
  std::optional<MaskTable> table;    // worker
  std::optional<MaskStore> store;    // disk
  // ram: [samples, record_bytes]
  std::shared_ptr<const HostCopy> held;
  uint64_t samples = 0, record_bytes = 0;
  Scratch<uint8_t> wild_type;  // [stride]

  std::span<const std::byte> record(uint64_t sample) const {
    if (store) return store->record(sample);
    return held->bytes().subspan(sample * record_bytes, record_bytes);
  }
};

namespace {

MaskStore open_store(const Screen& screen, const HeteroGraph& graph, const RungOptions& options) {
  const MaskForm form = mask_form(options.rung);
  if (options.store.empty())
    throw Error("rung {} needs a store (key `store`); `{}` makes one", name(options.rung),
                prepare_command(screen, form, "STORE"));
  if (!fs::exists(options.store))
    throw Error("there is no store {}; `{}` makes it", options.store.string(),
                prepare_command(screen, form, options.store));
  if (!fingerprint_of(graph).differing_parts(fingerprint_of(screen.graph())).empty())
    throw Error(
        "rung {} reads masks of the screen's own graph, but the model's has other edges; take rung "
        "worker or kernel",
        name(options.rung));
  MaskStore store = MaskStore::open(options.store, screen);
  if (store.form() != form)
    throw Error("store {} is for rung {}, but the rung is {}; `{}` makes one",
                options.store.string(), disk_rung(store.form()), name(options.rung),
                prepare_command(screen, form, "STORE"));
  if (store.view() != GeneReactionView::gene)
    throw Error(
        "store {} was made with view {} of gene-reaction edges, and rungs have view gene; `{} "
        "--again` makes it anew",
        options.store.string(), name(store.view()), prepare_command(screen, form, options.store));
  return store;
}

// One copy a host, whatever the number of processes: its name is a hash of all that it depends on.
HostCopyPlan plan_masks(const Screen& screen, const HeteroGraph& graph, const MaskEncoder& encoder,
                        MaskForm form) {
  constexpr uint64_t kPiece = uint64_t(64) << 20;  // what a kill may cost
  const Samples& samples = screen.samples();
  Hasher hasher;
  hasher.add(fmt::format("masks as {} of {}, {}", name(form), hex(fingerprint_of(graph).value()),
                         hex(fingerprint_of_removed(samples, 0, samples.size()).value())));
  HostCopyPlan plan = {.key = hasher.value(), .words = "masks of " + screen.path().string()};
  const uint64_t record = encoder.record_bytes(), all = samples.size();
  const uint64_t rows = std::max<uint64_t>(1, kPiece / std::max<uint64_t>(record, 1));
  for (uint64_t first = 0; first < all; first += rows)
    plan.cuts.push_back(std::min(first + rows, all) * record);
  return plan;
}

// Throws Error where they do not fit into memory.
std::shared_ptr<const HostCopy> hold_masks(const Screen& screen, const HeteroGraph& graph,
                                           const MaskEncoder& encoder, Rung rung,
                                           Progress& progress) {
  const HostCopyPlan plan = plan_masks(screen, graph, encoder, mask_form(rung));
  const uint64_t needed = plan.cuts.back(), record = encoder.record_bytes();
  give_back_freed_memory();
  const uint64_t free = available_memory();
  if (double(needed) * kRoomMargin > double(free) && !HostCopy::is_held(plan))
    throw Error(
        "rung {} needs {} times {} of memory for the masks of {} samples, and {} are free; rung "
        "kernel needs none, and `lacuna plan {}` compares them all",
        name(rung), kRoomMargin, format_bytes(needed), with_commas(screen.samples().size()),
        format_bytes(free), shell_word(screen.path().string()));
  const auto fill = [&](uint64_t piece, std::span<std::byte> out) {
    const uint64_t first = plan.cuts[piece] / record;
    parallel_for(out.size() / record, 0, [&](uint64_t i) {
      std::vector<uint32_t> removed;
      RemovedReader(screen.samples()).read(first + i, removed);
      encoder.write(first + i, removed, out.data() + i * record);
    });
  };
  progress.begin("making masks", needed, "bytes");
  auto held = HostCopy::share(plan, fill, progress);
  progress.end();
  return held;
}

}  // namespace

// ---- what a rung reads
RungOptions rung_for(const RungOptions& asked, const std::string& model, bool reads_masks,
                     const std::function<void(const std::string&)>& note) {
  if (has_masks(asked.rung) && !reads_masks) {
    note(fmt::format("rung {} is not used: model {} reads no masks, so none are made",
                     name(asked.rung), model));
    return {};
  }
  if (!asked.store.empty() && !is_stored(asked.rung))
    note(fmt::format("store {} is not read: rung {} needs none", asked.store.string(),
                     name(asked.rung)));
  return asked;
}

RungMasks::RungMasks() : state_(std::make_shared<State>()) {}

RungMasks::RungMasks(const Screen& screen, const HeteroGraph& graph, const RungOptions& options,
                     Progress& progress) {
  const auto state = std::make_shared<State>();
  state_ = state;
  state->rung = options.rung;
  if (!has_masks(options.rung)) return;
  state->form = mask_form(options.rung);
  const RemovalRules rules(graph);
  state->layout.emplace(rules, MaskForm::u8);
  state->wild_type = Scratch<uint8_t>(state->layout->stride());
  write_wild_type(*state->layout, state->wild_type.get());
  if (makes_masks_in_loader(options.rung)) state->table.emplace(rules, *state->layout);
  if (is_stored(options.rung)) state->store.emplace(open_store(screen, graph, options));
  if (!is_held(options.rung)) return;

  // The masks of all of the screen's samples, so that a sample's number says where its record is.
  const MaskEncoder encoder(rules, state->form);
  state->samples = screen.samples().size();
  state->record_bytes = encoder.record_bytes();
  state->held = hold_masks(screen, graph, encoder, options.rung, progress);
}

Rung RungMasks::rung() const { return state_->rung; }

const MaskLayout& RungMasks::layout() const {
  LACUNA_ASSERT(state_->layout);
  return *state_->layout;
}

std::span<const uint8_t> RungMasks::wild_type() const {
  return {state_->wild_type.get(), layout().stride()};
}

uint64_t RungMasks::held_bytes() const {
  uint64_t bytes = state_->samples * state_->record_bytes;
  if (state_->table) bytes += (state_->table->ptr.size() + state_->table->place.size()) * 4;
  return bytes;
}

void RungMasks::check_samples(const Screen& screen, uint64_t first, uint64_t last) const {
  if (!state_->store) return;
  const MaskStore& store = *state_->store;
  if (first >= store.begin() && last < store.end()) return;
  MaskStoreContents enough;
  enough.form = state_->form;
  enough.begin = std::min(first, store.begin());
  enough.end = std::max(last + 1, store.end());
  throw Error(
      "store {} holds samples {} to {}, but samples {} to {} are asked for; `{}{}` makes them",
      store.path().string(), store.begin(), store.end() - 1, first, last,
      prepare_command(screen, enough, store.path()), first < store.begin() ? " --again" : "");
}

TemporaryStore::TemporaryStore(const Screen& screen, Rung rung, const fs::path& folder,
                               Progress& progress)
    : TemporaryStore() {  // so that the destructor cleans up after what is thrown here
  if (!is_stored(rung)) return;
  path_ = folder / "store";
  const auto made = prepare_masks(screen, mask_form(rung), path_, {}, progress);
  if (made.is_stopped) throw Stopped();
  bytes_ = made.bytes;
}

TemporaryStore::~TemporaryStore() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

// ---- batches
uint64_t RungBatch::mask_bytes() const {
  return records_.empty() ? 0 : records_.size() * masks_.layout().stride();
}

RungSource::RungSource(const Screen& screen, RungMasks masks, uint64_t batch,
                       ScreenSourceOptions samples)
    : source_(screen.samples(), screen.graph().genes().size(), std::move(samples)),
      masks_(std::move(masks)),
      batch_(batch) {
  if (source_.size() == 0) return;
  const auto [first, last] = source_.sample_range();
  masks_.check_samples(screen, first, last);
}

void RungSource::fill(std::span<const uint64_t> places, RungBatch& out) const {
  source_.fill(places, out.samples_);
  out.records_.clear();
  out.block_ = nullptr;
  if (out.masks_.state_ != masks_.state_) {  // it comes from another source
    out.arena_.reset();
    out.buffer_ = {};
    out.capacity_ = 0;
    out.masks_ = masks_;
  }
  if (masks_.loads_masks()) fill_masks(out);
}

// The buffers of a batch, made when it meets its source for the first time.
void RungSource::reserve(RungBatch& out) const {
  const uint64_t capacity = std::max(batch_, out.size());
  if (out.capacity_ >= capacity) return;
  out.capacity_ = 0;
  if (makes_masks_in_loader(masks_.rung()))
    out.arena_ =
        std::make_unique<MaskArena>(masks_.layout(), *masks_.state_->table, int64_t(capacity) + 1);
  else if (fills_records(masks_.rung()))
    out.buffer_ = Scratch<uint8_t>((capacity + 1) * masks_.layout().stride());
  out.capacity_ = capacity;
}

void RungSource::fill_masks(RungBatch& out) const {
  reserve(out);
  const RungMasks::State& state = *masks_.state_;
  const std::span<const uint64_t> samples = out.samples_.samples();
  const uint64_t stride = state.layout->stride();
  if (makes_masks_in_loader(state.rung)) {
    out.block_ = out.arena_->update({out.samples_.removed(), out.samples_.ptr()});
  } else if (fills_records(state.rung)) {
    uint8_t* record = out.buffer_.get();
    for (const uint64_t sample : samples) {
      expand_masks(*state.layout, state.form, state.record(sample), record);
      record += stride;
    }
    std::memcpy(record, state.wild_type.get(), stride);
    out.block_ = out.buffer_.get();
  }
  for (uint64_t b = 0; b < out.size(); ++b)
    out.records_.push_back(out.block_
                               ? out.block_ + b * stride
                               : reinterpret_cast<const uint8_t*>(state.record(samples[b]).data()));
}

}  // namespace lacuna
