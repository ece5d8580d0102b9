// Pieces at places: what is written is read back, and every failure names the file.
#include "os/positioned_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

std::string Read(const PositionedFile& file, uint64_t offset, size_t n) {
  std::string text(n, '?');
  const Status read = file.ReadAt(offset, std::as_writable_bytes(std::span(text)));
  return read.has_value() ? text : "error: " + read.error().message;
}

TEST(PositionedFile, WritesAtPlacesAndKeepsTheRest) {
  const test::TempDir dir;
  const std::string path = dir.Write("f", "0123456789");
  auto file = PositionedFile::OpenWrite(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->WriteAt(3, "abc").has_value());
  EXPECT_TRUE(file->WriteAt(12, "z").has_value());
  EXPECT_TRUE(file->Sync().has_value());
  EXPECT_EQ(test::ReadFileBytes(path), std::string("012abc6789\0\0z", 13));
  EXPECT_EQ(Read(*file, 2, 4), "2abc");
  EXPECT_EQ(file->Stat()->bytes, 13u);
  EXPECT_TRUE(file->Resize(4).has_value());
  EXPECT_TRUE(file->Reserve(100000).has_value());
  EXPECT_EQ(test::ReadFileBytes(path), "012a");
}

TEST(PositionedFile, AFileThatEndsEarlyIsNamed) {
  const test::TempDir dir;
  const auto file = PositionedFile::OpenRead(dir.Write("short", "0123"));
  ASSERT_TRUE(file.has_value());
  EXPECT_THAT(Read(*file, 2, 5), HasSubstr("short: ends at byte 4, expected 3 more"));
}

TEST(PositionedFile, RefusesWhatIsNoFile) {
  const test::TempDir dir;
  EXPECT_EQ(PositionedFile::OpenRead(dir.File("absent")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(PositionedFile::OpenRead(dir.path()).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(PositionedFile::OpenWrite(dir.File("no/folder")).error().code, ErrorCode::kNotFound);
  std::filesystem::create_symlink(dir.Write("target", "t"), dir.File("link"));
  EXPECT_FALSE(PositionedFile::OpenWrite(dir.File("link")).has_value());
}

TEST(PositionedFile, TheLockIsHeldOnce) {
  const test::TempDir dir;
  const std::string path = dir.Write("f", "");
  auto first = PositionedFile::OpenWrite(path);
  const auto second = PositionedFile::OpenWrite(path);
  EXPECT_TRUE(*first->TryLock());
  EXPECT_FALSE(*second->TryLock());
  {
    const PositionedFile closed = std::move(*first);
  }
  EXPECT_TRUE(*second->TryLock());
}

}  // namespace
}  // namespace minicpm
