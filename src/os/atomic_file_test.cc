// Tests of AtomicFile: the final name shows the old content or the whole new one, never anything between.
#include "os/atomic_file.h"

#include <sys/stat.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::ReadFileBytes;
using test::TempDir;

int FilesIn(const TempDir& dir) {
  const std::filesystem::directory_iterator files(dir.path());
  return static_cast<int>(std::distance(begin(files), end(files)));
}

TEST(AtomicFile, AppearsWhenCommitted) {
  const TempDir dir;
  const std::string path = dir.Write("f", "old");
  AtomicFile file = AtomicFile::Create(path).value();
  ASSERT_TRUE(file.Write(std::string_view("new ")).has_value());
  AtomicFile moved = std::move(file);
  ASSERT_TRUE(moved.Write(std::string_view("content")).has_value());
  EXPECT_EQ(ReadFileBytes(path), "old");
  ASSERT_TRUE(moved.Commit().has_value());
  EXPECT_EQ(ReadFileBytes(path), "new content");
  EXPECT_EQ(FilesIn(dir), 1);
}

TEST(AtomicFile, VanishesWhenNotCommitted) {
  const TempDir dir;
  const std::string path = dir.Write("f", "old");
  {
    AtomicFile file = AtomicFile::Create(path).value();
    ASSERT_TRUE(file.Write(std::string_view("half")).has_value());
    EXPECT_EQ(FilesIn(dir), 2);
  }
  EXPECT_EQ(ReadFileBytes(path), "old");
  EXPECT_EQ(FilesIn(dir), 1);
}

TEST(AtomicFile, TwoWritersDoNotMeet) {
  const TempDir dir;
  AtomicFile a = AtomicFile::Create(dir.File("f")).value();
  AtomicFile b = AtomicFile::Create(dir.File("f")).value();
  ASSERT_TRUE(a.Write(std::string_view("aaa")).has_value());
  ASSERT_TRUE(b.Write(std::string_view("b")).has_value());
  ASSERT_TRUE(a.Commit().has_value());
  ASSERT_TRUE(b.Commit().has_value());
  EXPECT_EQ(ReadFileBytes(dir.File("f")), "b");
  EXPECT_EQ(FilesIn(dir), 1);
}

TEST(AtomicFile, GivesNoMorePermissionsThanTheUserAllows) {
  const TempDir dir;
  const mode_t old_mask = ::umask(027);
  AtomicFile file = AtomicFile::Create(dir.File("f")).value();
  const Status committed = file.Commit();
  ::umask(old_mask);
  ASSERT_TRUE(committed.has_value());
  struct stat info = {};
  ASSERT_EQ(::stat(dir.File("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFile, NeverReplacesADeviceOrAPipe) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.File("pipe").c_str(), 0600), 0);
  const auto refused = AtomicFile::Create(dir.File("pipe"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, dir.File("pipe") + ": not a regular file, so it is not replaced");
}

TEST(AtomicFile, SaysWhyItCannot) {
  const TempDir dir;
  const auto missing = AtomicFile::Create(dir.File("no/f"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, dir.File("no/f") + ": cannot create: No such file or directory");

  std::filesystem::create_directory(dir.File("folder"));
  AtomicFile onto_folder = AtomicFile::Create(dir.File("folder")).value();
  const Status refused = onto_folder.Commit();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, dir.File("folder") + ": cannot give the file its name: Is a directory");
  EXPECT_EQ(FilesIn(dir), 1);
}

}  // namespace
}  // namespace minicpm
