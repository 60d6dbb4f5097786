#include "lacuna/core/system/mapped_fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lacuna {
namespace {

// A signal handler may read atomics and plain memory, and neither lock nor allocate: hence a table
// of fixed size, without pointers. A slot is taken by setting `taken`; it is in use from when `end`
// is set, which comes after everything else is in place, until `end` is 0 again.
struct Slot {
  static constexpr size_t kPathBytes = 480;
  std::atomic<bool> taken = false;
  std::atomic<uintptr_t> begin = 0, end = 0;
  char path[kPathBytes] = {};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may touch lock-free atomics only");

Slot slots[MappedRange::kMost];
constexpr size_t kNoSlot = MappedRange::kMost;
std::atomic<size_t> slots_tried = 0;  // no slot from here on was ever taken

const Slot* find_slot(uintptr_t address) {
  const size_t tried = slots_tried;
  for (size_t i = 0; i < tried; ++i) {
    const uintptr_t end = slots[i].end;
    if (address < end && address >= slots[i].begin) return &slots[i];
  }
  return nullptr;
}

void write_out(const char* text) {
  for (size_t left = std::strlen(text); left > 0;) {
    const ssize_t written = ::write(STDERR_FILENO, text, left);
    if (written <= 0) return;
    text += written;
    left -= size_t(written);
  }
}

struct sigaction previous = {};

void pass_on(int number, siginfo_t* info, void* context) {
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(number, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(number);
  // The access is tried again when this returns, and then ends the process as it always did.
  ::signal(SIGBUS, SIG_DFL);
  if (info->si_code <= 0) ::raise(SIGBUS);  // sent by a process: no access is tried again
}

void on_fault(int number, siginfo_t* info, void* context) {
  const Slot* const slot =
      info->si_code > 0 ? find_slot(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
  if (!slot) return pass_on(number, info, context);
  write_out("error: ");
  write_out(slot->path);
  write_out(
      ": became shorter while it was read (or its disk fails); restore the file and run the "
      "command again\n");
  ::_exit(1);
}

}  // namespace

MappedRange::MappedRange(const void* begin, size_t bytes, const fs::path& path) : slot_(kNoSlot) {
  for (size_t i = 0; i < kMost && slot_ == kNoSlot; ++i)
    if (!slots[i].taken.load(std::memory_order_relaxed) && !slots[i].taken.exchange(true))
      slot_ = i;
  if (slot_ == kNoSlot) return;
  for (size_t tried = slots_tried; tried <= slot_;)
    if (slots_tried.compare_exchange_weak(tried, slot_ + 1)) break;
  Slot& slot = slots[slot_];
  std::string name = path.string();
  if (name.size() >= Slot::kPathBytes) name.replace(0, name.size() - (Slot::kPathBytes - 4), "...");
  // A message is one line, whatever the name holds.
  std::replace_if(
      name.begin(), name.end(), [](char c) { return uint8_t(c) < 0x20 || c == 0x7f; }, ' ');
  std::memcpy(slot.path, name.c_str(), name.size() + 1);
  slot.begin = reinterpret_cast<uintptr_t>(begin);
  slot.end = reinterpret_cast<uintptr_t>(begin) + bytes;
}

MappedRange::~MappedRange() {
  if (slot_ == kNoSlot) return;
  slots[slot_].end = 0;
  slots[slot_].taken = false;
}

bool is_mapped_range(const void* address) {
  return find_slot(reinterpret_cast<uintptr_t>(address)) != nullptr;
}

void report_mapped_faults() {
  struct sigaction now = {};
  ::sigaction(SIGBUS, nullptr, &now);
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) return;
  previous = now;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace lacuna
