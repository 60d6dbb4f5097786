// What holds across processes and on the disk: one copy a host, kills, cold reads, limits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "lacuna/core/system/memory.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/ladder/recording_source.h"
#include "lacuna/ladder/testing.h"
#include "lacuna/load/session_order.h"
#include "lacuna/recording/recording_writer.h"
#include "lacuna/recording/testing.h"
#include "lacuna/store/zarr/zarr_chunks.h"

namespace lacuna {
namespace {

using testing::Child;
using testing::Signal;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kHasShadow = true;  // AddressSanitizer takes memory of its own, far more than ours
#else
constexpr bool kHasShadow = false;
#endif

constexpr uint64_t kMovieSide = 51, kMoviePixels = kMovieSide * kMovieSide;

// A movie that compresses about threefold, and differs from every other test's.
Recording write_movie(const fs::path& path, uint64_t frames, uint64_t seed) {
  RecordingWriter writer(path, {});
  Random random(seed);
  std::vector<uint8_t> rows(frames * kMoviePixels), counts(frames);
  for (uint64_t i = 0; i < rows.size(); ++i)
    rows[i] = uint8_t(i % 12 ? rows[i - 1] : random.next() >> 56);
  writer.begin_session({.name = "s", .rate = 120, .units = {"u"}});
  writer.begin_segment("movie");
  writer.add_field("stim", FieldRole::stimulus,
                   Array::from(std::move(rows), {frames, kMovieSide, kMovieSide}));
  writer.add_field("robs", FieldRole::counts, Array::from(std::move(counts), {frames, 1}));
  return writer.commit({});
}

// Sums over the mappings of a process: those that hold frames, and private memory of all.
struct MemoryOf {
  uint64_t frames_pss = 0, private_bytes = 0;

  explicit MemoryOf(pid_t pid) {
    std::ifstream maps(fmt::format("/proc/{}/smaps", pid));
    bool is_frames = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find('-') < line.find(' '))
        is_frames = line.find("memfd:lacuna-frames") != line.npos;
      if (is_frames && line.starts_with("Pss:")) frames_pss += kilobytes(line);
      if (!is_frames && line.starts_with("Private_Dirty:")) private_bytes += kilobytes(line);
    }
  }
  static uint64_t kilobytes(const std::string& line) {
    return std::stoull(line.substr(line.find(':') + 1)) * 1024;
  }
};

// Batches through a loader; returns how many windows.
uint64_t load_windows(const Recording& recording, const FramesOptions& options, uint64_t batches,
                      uint64_t batch = 16) {
  const Windows windows(recording, {.stimulus = {.field = "stim", .lags = 33}});
  const RecordingSource source(windows, Frames(recording, options), {.batch = batch});
  Loader<RecordingSource, SessionOrder> loader(
      source, SessionOrder(source.first(), {.global_batch = batch, .seed = 1}),
      {.threads = 2, .prefetch = source.prefetch(2, 4 << 20)});
  uint64_t count = 0;
  for (uint64_t i = 0; i < batches;) {
    const auto next = loader.next();
    if (!next) continue;
    count += next->size();
    ++i;
  }
  return count;
}

TEST(FramesProcesses, FourHoldOneCopyAndLittleElse) {
  const TemporaryDirectory folder;
  const Recording movie = write_movie(folder / "rec", 40'000, test_seed());  // 104 MB
  const uint64_t bytes = 40'000 * kMoviePixels;
  Signal ready, end;
  std::vector<std::unique_ptr<Child>> processes;
  for (int i = 0; i < 4; ++i)
    processes.push_back(std::make_unique<Child>([&] {
      const Windows windows(movie, {.stimulus = {.field = "stim", .lags = 33}});
      const RecordingSource source(
          windows, Frames(movie, {.rung = {Place::ram, Form::u8, Place::device}}), {.batch = 16});
      RecordingBatch batch;
      for (uint64_t w = 0; w + 33 < windows.size(); w += 33)  // touches every frame
        source.fill(std::vector<uint64_t>{w}, batch);
      ready.give();
      ready.close_giving();
      return end.wait() ? 0 : 1;
    }));
  ready.close_giving();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ready.wait()) << "a process ended before it was ready";
  uint64_t frames = 0;
  for (const auto& process : processes) {
    const MemoryOf memory(process->pid());
    frames += memory.frames_pss;
    if (!kHasShadow) {
      EXPECT_LT(memory.private_bytes, 64 << 20) << "a batch is 1.4 MB; a copy would be 104";
    }
  }
  for (int i = 0; i < 4; ++i) end.give();
  for (const auto& process : processes) EXPECT_EQ(process->wait(), 0);
  EXPECT_GE(double(frames), 0.97 * double(bytes));
  EXPECT_LE(double(frames), 1.05 * double(bytes));
}

// Resident bytes a frame, by the system's own count: u8 means one byte a pixel.
TEST(FramesProcesses, EveryRungHoldsTheBytesAFrameThatItSays) {
  const TemporaryDirectory folder;
  const uint64_t frames = 8000;  // 20.8 MB
  const Recording movie = write_movie(folder / "rec", frames, test_seed());
  prepare_frames(movie, {.form = Form::bf16}, folder / "bf16", {});
  prepare_frames(movie, {.form = Form::f32}, folder / "f32", {});
  prepare_frames(movie, {.form = Form::chunks}, folder / "chunks", {});
  const ZarrChunks chunks(folder / "chunks" / "s" / "movie" / "stim.zarr");
  const double packed = double(chunks.packed_bytes(0, frames)) / double(frames);
  EXPECT_LT(packed, 0.6 * kMoviePixels);  // else this would not tell chunks from u8
  const double a_pixel = kMoviePixels;
  for (const auto& [rung, bytes] :
       std::vector<std::pair<std::string, double>>{{"ram:u8@device", a_pixel},
                                                   {"ram:bf16", 2 * a_pixel},
                                                   {"ram:f32", 4 * a_pixel},
                                                   {"ram:chunks@device", packed},
                                                   {"tiered@device", a_pixel},
                                                   {"disk:u8@device", 0},
                                                   {"disk:bf16", 0},
                                                   {"disk:f32", 0},
                                                   {"disk:chunks@device", 0}}) {
    SCOPED_TRACE(rung);
    Signal ready, end;
    Child process([&, rung = rung] {
      FramesOptions options = {.rung = recording_rung_from_name(rung),
                               .hot_bytes = frames * kMoviePixels};
      if (needs_store(options.rung)) options.store = folder / std::string(name(options.rung.form));
      const Frames held(movie, options);
      std::vector<std::byte> out(held.frame_bytes());
      for (uint64_t t = 0; t < frames; ++t) held.read(0, 0, t, 1, 1, out.data());
      ready.give();
      ready.close_giving();
      return end.wait() ? 0 : 1;
    });
    ready.close_giving();
    ASSERT_TRUE(ready.wait()) << "the process ended before it was ready";
    const MemoryOf memory(process.pid());
    end.give();
    EXPECT_EQ(process.wait(), 0);
    const double found = double(memory.frames_pss), said = bytes * double(frames);
    EXPECT_GE(found, 0.97 * said);
    // Where pages are huge, the first, which is no frames, and the last are.
    EXPECT_LE(found, said > 0 ? 1.05 * said + (4 << 20) : 0);
    if (!kHasShadow) {
      EXPECT_LT(memory.private_bytes, 12u << 20) << "frames are held a second time";
    }
  }
}

TEST(FramesProcesses, OneKilledWhileLoadingLeavesTheOthersWhole) {
  const TemporaryDirectory folder;
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Recording movie = write_movie(folder / "rec", 60'000, seed);  // three pieces
  std::vector<std::unique_ptr<Child>> processes;
  for (int i = 0; i < 4; ++i)
    processes.push_back(std::make_unique<Child>([&] {
      const Frames ram(movie, {.rung = {Place::ram, Form::u8, Place::device}});
      const Frames disk(movie, {.rung = {Place::disk, Form::u8, Place::device}});
      std::vector<std::byte> a(33 * kMoviePixels), b(a.size());
      for (uint64_t t = 32; t < 60'000; t += 31) {
        ram.read(0, 0, t, 33, 1, a.data());
        disk.read(0, 0, t, 33, 1, b.data());
        if (a != b) return 1;
      }
      return 0;
    }));
  std::this_thread::sleep_for(std::chrono::microseconds(Random(seed, 7).below(60'000)));
  processes[0]->kill();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(processes[size_t(i)]->wait(), 0);
}

TEST(FramesProcesses, TwentyStartsAndKillsLeaveNothing) {
  const TemporaryDirectory folder;
  const Recording movie = write_movie(folder / "rec", 2000, test_seed());
  const auto count_files = [](const fs::path& path) {
    uint64_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::recursive_directory_iterator(path)) ++count;
    return count;
  };
  const uint64_t files = count_files(folder.path());
  for (int start = 0; start < 20; ++start) {
    Signal ready;
    Child process([&] {
      const Frames frames(movie, {.rung = {Place::ram, Form::f32}});
      std::vector<std::byte> out(33 * frames.frame_bytes());
      frames.read(0, 0, 999, 33, 1, out.data());
      ready.give();
      ::pause();
      return 0;
    });
    ready.close_giving();
    ASSERT_TRUE(ready.wait()) << "the process ended before it was ready";
    EXPECT_GT(MemoryOf(process.pid()).frames_pss, 0);
    process.kill();
  }
  EXPECT_EQ(count_files(folder.path()), files);
}

// What a start does is the same the twentieth time: no lock, file or memory of a killed one is met.
TEST(FramesProcesses, TheTwentiethStartDoesWhatTheFirstDid) {
  const TemporaryDirectory folder;
  const Recording movie = write_movie(folder / "rec", 2000, test_seed());
  prepare_frames(movie, {.form = Form::chunks}, folder / "chunks", {});
  for (const std::string rung : {"disk:u8@device", "disk:chunks@device", "ram:u8@device"}) {
    SCOPED_TRACE(rung);
    std::vector<uint64_t> requests;
    for (int start = 0; start < 20; ++start) {
      Signal ready;
      int counted[2];
      ASSERT_EQ(::pipe(counted), 0);
      Child process([&] {
        const auto calls = [] {
          std::ifstream io("/proc/self/io");
          std::string word;
          for (uint64_t value = 0; io >> word >> value;)
            if (word == "syscr:") return value;
          return uint64_t(0);
        };
        const uint64_t before = calls();
        FramesOptions options = {.rung = recording_rung_from_name(rung)};
        if (needs_store(options.rung)) options.store = folder / "chunks";
        load_windows(Recording::open(folder / "rec"), options, 1);
        const uint64_t took = calls() - before;
        (void)!::write(counted[1], &took, sizeof took);
        ready.give();
        ::pause();
        return 0;
      });
      ready.close_giving();
      ASSERT_TRUE(ready.wait()) << "the process ended before it was ready";
      uint64_t took = 0;
      ASSERT_EQ(::read(counted[0], &took, sizeof took), ssize_t(sizeof took));
      requests.push_back(took);
      process.kill();
      ::close(counted[0]);
      ::close(counted[1]);
    }
    EXPECT_GT(requests[0], 0);
    // Batches made ahead when the first is taken: some more or less.
    EXPECT_LE(double(requests.back()), 1.5 * double(requests[0]) + 100);
    EXPECT_NO_THROW(DirectoryLock(folder / "chunks", DirectoryLock::Use::writing));
  }
}

// ---- the disk
struct ReadCounters {
  uint64_t bytes = 0, calls = 0;
  ReadCounters() {
    std::ifstream io("/proc/self/io");
    std::string word;
    for (uint64_t value = 0; io >> word >> value;) {
      if (word == "read_bytes:") bytes = value;
      if (word == "syscr:") calls = value;
    }
  }
};

// Of all files but the checksums, which stay in memory as counts do.
void drop_cache(const fs::path& path) {
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file() || entry.path().string().ends_with(".check.npy")) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

bool is_on_a_disk(const fs::path& path) {
  struct statfs status = {};
  constexpr long kTmpfs = 0x01021994;
  return ::statfs(path.c_str(), &status) == 0 && status.f_type != kTmpfs;
}

TEST(FramesCold, AWindowIsOneRequestOfItsBytes) {
  const TemporaryDirectory folder;
  if (!is_on_a_disk(folder.path())) GTEST_SKIP() << "the temporary folder is in memory";
  const uint64_t frames = 20'000;
  const Recording movie = write_movie(folder / "rec", frames, test_seed());
  for (const Form form : {Form::bf16, Form::f32, Form::chunks})
    prepare_frames(movie, {.form = form}, folder / std::string(name(form)), {});
  for (const std::string rung :
       {"disk:u8@device", "disk:u8@worker", "disk:bf16", "disk:f32", "disk:chunks@device"}) {
    SCOPED_TRACE(rung);
    FramesOptions options = {.rung = recording_rung_from_name(rung)};
    if (needs_store(options.rung)) options.store = folder / std::string(name(options.rung.form));
    const Frames cold(movie, options);
    std::vector<std::byte> out(33 * cold.frame_bytes());
    cold.read(0, 0, 40, 33, 1, out.data());  // the checksums' first page, and code
    drop_cache(folder.path());
    Random random(1);
    constexpr uint64_t kWindows = 40;
    std::vector<uint64_t> times;
    for (uint64_t i = 0; i < kWindows; ++i)  // far apart: none shares a page with another
      times.push_back(100 + i * (frames - 200) / kWindows + random.below(100));
    uint64_t wanted = 0;
    if (options.rung.form == Form::chunks) {
      const ZarrChunks chunks(options.store / "s" / "movie" / "stim.zarr");
      for (const uint64_t t : times) wanted += chunks.packed_bytes(t - 32, t + 1);
      drop_cache(folder.path());
    } else {
      wanted = kWindows * 33 * kMoviePixels * item_size(held_dtype(options.rung));
    }
    const ReadCounters before;
    for (const uint64_t t : times) cold.read(0, 0, t, 33, 1, out.data());
    const ReadCounters after;
    const double bytes = double(after.bytes - before.bytes);
    EXPECT_GT(bytes, 0) << "nothing was read from a disk: the counter is blind here";
    // Whole pages are read: one more a window, on the average.
    const bool is_packed = options.rung.form == Form::chunks;
    EXPECT_LE(bytes, is_packed ? double(wanted + kWindows * 2 * 4096) : 1.1 * double(wanted));
    EXPECT_GE(bytes, 0.9 * double(wanted));
    const uint64_t calls = after.calls - before.calls;
    EXPECT_LE(calls, kWindows + 8);  // /proc/self/io itself takes some
  }
}

TEST(FramesCold, AStartReadsLittleWhateverTheSize) {
  const TemporaryDirectory folder;
  if (!is_on_a_disk(folder.path())) GTEST_SKIP() << "the temporary folder is in memory";
  const Recording written = write_movie(folder / "rec", 40'000, test_seed());
  drop_cache(folder.path());
  const ReadCounters before;
  const Recording movie = Recording::open(folder / "rec");
  EXPECT_EQ(load_windows(movie, {.rung = {Place::disk, Form::u8, Place::device}}, 1), 16);
  // Up to five batches of 16 windows are made ahead; the movie has 104 MB.
  EXPECT_LT(ReadCounters().bytes - before.bytes, 20u << 20);
}

// A recording four times the memory that the process may take.
TEST(FramesLimits, FourTimesTheLimitIsReadWithinIt) {
  if (kHasShadow) GTEST_SKIP() << "AddressSanitizer's own memory counts";
  const TemporaryDirectory folder;
  const uint64_t limit = 48 << 20, frames = 4 * limit / kMoviePixels;
  const Recording movie = write_movie(folder / "rec", frames, test_seed());
  prepare_frames(movie, {.form = Form::chunks}, folder / "chunks", {});
  for (const std::string rung : {"disk:u8@worker", "disk:chunks@device"}) {
    SCOPED_TRACE(rung);
    Child process([&] {
      give_back_freed_memory();
      uint64_t data = 0;
      std::ifstream status("/proc/self/status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmData:")) data = MemoryOf::kilobytes(line);
      const rlimit bound = {data + limit, data + limit};
      if (::setrlimit(RLIMIT_DATA, &bound) != 0) return 2;
      FramesOptions options = {.rung = recording_rung_from_name(rung)};
      if (needs_store(options.rung)) options.store = folder / "chunks";
      return load_windows(movie, options, 120, 8) == 960 ? 0 : 1;
    });
    EXPECT_EQ(process.wait(), 0);
  }
}

TEST(FramesLimits, TheGuardSeesTheLimitOfTheProcess) {
  if (kHasShadow) GTEST_SKIP() << "AddressSanitizer's own memory counts";
  const TemporaryDirectory folder;
  const Recording movie = write_movie(folder / "rec", 8000, test_seed());  // 83 MB as f32
  Child process([&] {
    uint64_t data = 0;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmData:")) data = MemoryOf::kilobytes(line);
    const rlimit bound = {data + (64 << 20), data + (64 << 20)};
    if (::setrlimit(RLIMIT_DATA, &bound) != 0) return 2;
    try {
      Frames(movie, {.rung = {Place::ram, Form::f32}});
    } catch (const Error& error) {
      const std::string words = error.what();
      return words.find("rung ram:f32 needs 83.2 MB") != words.npos &&
                     words.find("are free") != words.npos && words.find("ram:u8") != words.npos
                 ? 0
                 : 1;
    }
    return 3;
  });
  EXPECT_EQ(process.wait(), 0);
}

TEST(Guards, TheWatchWarnsOnceBeforeMemoryEnds) {
  std::atomic<uint64_t> left = 1000;
  std::atomic<int> warned = 0;
  std::string words;
  {
    MemoryWatch watch(
        [&](const std::string& text) {
          words = text;
          ++warned;
        },
        500, [&] { return left.load(); }, std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(warned, 0);
    left = 400;
    while (warned == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(warned, 1);
  EXPECT_NE(words.find("only 400 B"), words.npos) << words;
  EXPECT_GT(MemoryWatch::default_least(), 0);
}

// The watch looks at the limits that the guards look at.
TEST(Guards, TheWatchSeesTheLimitOfTheProcess) {
  if (kHasShadow) GTEST_SKIP() << "AddressSanitizer's own memory counts";
  Child process([] {
    const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const uint64_t machine = free_memory();
    uint64_t data = 0;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmData:")) data = MemoryOf::kilobytes(line);
    const rlimit bound = {data + (100 << 20), none.rlim_max};
    if (::setrlimit(RLIMIT_DATA, &bound) != 0) return 2;
    if (free_memory() > 100u << 20 || machine <= free_memory()) return 3;
    if (MemoryWatch::default_least() > (data + (100 << 20)) / 10) return 4;
    std::atomic<bool> warned = false;
    const MemoryWatch watch([&](const std::string&) { warned = true; }, 80 << 20, {},
                            std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (warned) return 5;  // its own thread's stack takes 8 MB
    const std::vector<char> more(40 << 20, 'x');
    for (int i = 0; i < 20'000 && !warned; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return warned && more[1] == 'x' ? 0 : 6;
  });
  EXPECT_EQ(process.wait(), 0);
}

TEST(Guards, BothNumbersAndTheMargin) {
  const TemporaryDirectory folder;
  const Room room = disk_room(0, folder / "not/there/yet");
  EXPECT_GT(room.free, 0);
  EXPECT_ERROR(check_disk_room(room.free, folder.path(), "a copy", "take less"), "take less");
  EXPECT_NO_THROW(check_disk_room(room.free / 2, folder.path(), "a copy", "take less"));
  const auto memory = double(memory_room(0).free);
  EXPECT_ERROR(check_memory_room(uint64_t(0.97 * memory), "a copy", "take less"), "take less");
  EXPECT_NO_THROW(check_memory_room(uint64_t(0.5 * memory), "a copy", "take less"));
  EXPECT_TRUE((Room{100, 120}.fits()));
  EXPECT_FALSE((Room{100, 119}.fits()));
  EXPECT_EQ((Room{40, 120}.left()), 60);
  const std::string words =
      error_of([&] { check_memory_room(uint64_t(1) << 50, "this", "do that"); });
  EXPECT_NE(words.find("this needs 1.13 PB of memory (1.35 PB with the margin of 1.2)"), words.npos)
      << words;
}

}  // namespace
}  // namespace lacuna
