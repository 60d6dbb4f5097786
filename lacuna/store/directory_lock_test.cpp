#include "lacuna/store/directory_lock.h"

#include <gtest/gtest.h>

#include <memory>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using Use = DirectoryLock::Use;

TEST(DirectoryLock, ManyReadersOrOneWriter) {
  const TemporaryDirectory directory;
  {
    const DirectoryLock one(directory.path(), Use::reading), two(directory.path(), Use::reading);
    EXPECT_ERROR(DirectoryLock(directory.path(), Use::writing), "in use");
  }
  {
    const DirectoryLock writer(directory.path(), Use::writing);
    EXPECT_ERROR(DirectoryLock(directory.path(), Use::writing), "in use");
    EXPECT_ERROR(DirectoryLock(directory.path(), Use::reading), "writes to it");
  }
  const DirectoryLock again(directory.path(), Use::writing);
  EXPECT_TRUE(fs::is_empty(directory.path()));
  EXPECT_ERROR(DirectoryLock(directory / "none", Use::reading), "cannot open");
}

}  // namespace
}  // namespace lacuna
