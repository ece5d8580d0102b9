// Loading libraries: what is none, what is missing, and where this program lies.
#include "os/shared_library.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;

TEST(SharedLibrary, RefusesWhatIsNone) {
  const test::TempDir folder;
  EXPECT_EQ(SharedLibrary::Open(folder.File("none.so")).error().code, ErrorCode::kNotFound);
  const auto text = SharedLibrary::Open(folder.Write("text.so", "no library"));
  EXPECT_EQ(text.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(text.error().message, HasSubstr("text.so"));
  EXPECT_THAT(SharedLibrary::Open(folder.path()).error().message, HasSubstr("not a file"));
}

TEST(ProgramFolder, HoldsThisTest) {
  const std::string folder = ProgramFolder().value();
  EXPECT_TRUE(std::filesystem::exists(folder + "/shared_library_test")) << folder;
}

}  // namespace
}  // namespace minicpm
