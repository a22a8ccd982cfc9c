//===- CacheFolder.cpp - Files that only this user may write --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheFolder.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace ::attn;
using namespace llvm;
using attn::support::Failure;
using attn::support::Result;
using attn::support::Status;

void attn::warnOnce(Warning kind, const std::string &text) {
  static std::atomic<bool> isSaid[2];
  if (!isSaid[int(kind)].exchange(true))
    std::fprintf(stderr, "attn: warning: %s\n", text.c_str());
}

static Failure failure(const std::string &doing, int code) {
  return Failure{"cannot " + doing + ": " + std::strerror(code)};
}

static std::string quote(const std::string &text) { return "'" + text + "'"; }

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

std::string CacheFolder::getPath() {
  if (const char *given = std::getenv("ATTN_CACHE_DIR"))
    return given;
  for (auto [name, below] :
       {std::pair("XDG_CACHE_HOME", "attn"), std::pair("HOME", ".cache/attn")})
    if (const char *folder = std::getenv(name); folder && *folder == '/') {
      SmallString<128> path(folder);
      sys::path::append(path, below);
      return path.str().str();
    }
  return "";
}

/// Why others may put files there or take some away; empty if they may not.
static std::string findDistrust(const struct stat &status) {
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return "belongs to user " + std::to_string(status.st_uid);
  // In a sticky folder others may only put files of their own.
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) && !(status.st_mode & S_ISVTX))
    return "may be written by others (chmod go-w)";
  return "";
}

Result<CacheFolder> CacheFolder::openAt(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failure("open the folder of the cache, " + quote(path), errno);
  CacheFolder folder(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return failure("look at the folder of the cache, " + quote(path), errno);
  if (std::string why = findDistrust(status); !why.empty())
    return Failure{"cannot use the folder of the cache, " + quote(path) +
                   ": it " + why};
  return Result<CacheFolder>(std::move(folder));
}

std::optional<CacheFolder> CacheFolder::open() {
  std::string path = getPath();
  struct stat status;
  // One that is not there yet is as good as an empty one.
  if (path.empty() || stat(path.c_str(), &status) != 0)
    return std::nullopt;
  auto folder = openAt(path);
  if (!folder) {
    warnOnce(Warning::Cache, folder.error());
    return std::nullopt;
  }
  return std::move(*folder);
}

Result<CacheFolder> CacheFolder::make() {
  std::string path = getPath();
  if (path.empty())
    return Failure{"expected a folder for the cache (ATTN_CACHE_DIR), but got "
                   "none"};
  if (std::error_code code = sys::fs::create_directories(
          path, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return Failure{"cannot make the folder of the cache, " + quote(path) +
                   ": " + code.message()};
  return openAt(path);
}

CacheFolder::CacheFolder(CacheFolder &&other)
    : path(std::move(other.path)), descriptor(other.descriptor) {
  other.descriptor = -1;
}

CacheFolder::~CacheFolder() {
  if (descriptor >= 0)
    close(descriptor);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Why a file is not to be read; empty if it may be.
static std::string findDistrust(const struct stat &status, uint64_t maxBytes) {
  if (!S_ISREG(status.st_mode))
    return "is no regular file";
  if (status.st_uid != geteuid())
    return "belongs to user " + std::to_string(status.st_uid);
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return "may be written by others (chmod go-w)";
  if (status.st_nlink != 1)
    return "has other names";
  if (uint64_t(status.st_size) > maxBytes)
    return "has more than " + std::to_string(maxBytes) + " bytes";
  return "";
}

static bool readAll(int descriptor, std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t count = ::read(descriptor, &text[done], text.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    done += size_t(count);
  }
  return true;
}

static bool writeAll(int descriptor, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t count = ::write(descriptor, &text[done], text.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    done += size_t(count);
  }
  return true;
}

std::optional<std::string> CacheFolder::read(const std::string &name,
                                             uint64_t maxBytes) const {
  auto refuse = [&](const std::string &why) {
    warnOnce(Warning::Cache,
             "cannot use " + quote(path + "/" + name) + ": it " + why);
    return std::nullopt;
  };
  // A FIFO must not block, nor a link lead elsewhere.
  int file = openat(descriptor, name.c_str(),
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && errno == ELOOP)
    return refuse("is a symbolic link");
  if (file < 0)
    return std::nullopt;
  struct stat status;
  std::string why = fstat(file, &status) != 0 ? "cannot be looked at"
                                              : findDistrust(status, maxBytes);
  std::string text;
  if (why.empty()) {
    text.resize(size_t(status.st_size));
    if (!readAll(file, text))
      why = "cannot be read";
  }
  close(file);
  if (!why.empty())
    return refuse(why);
  return text;
}

Status CacheFolder::write(const std::string &name,
                          const std::string &text) const {
  std::random_device random;
  std::string temporary =
      name + "." + std::to_string(random()) + std::to_string(random());
  std::string doing = "write " + quote(path + "/" + name);
  int file = openat(descriptor, temporary.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    S_IRUSR | S_IWUSR);
  if (file < 0)
    return failure(doing, errno);
  int code = writeAll(file, text) ? 0 : errno;
  if (close(file) != 0 && code == 0)
    code = errno;
  if (code == 0 &&
      renameat(descriptor, temporary.c_str(), descriptor, name.c_str()) != 0)
    code = errno;
  if (code == 0)
    return support::success();
  unlinkat(descriptor, temporary.c_str(), 0);
  return failure(doing, code);
}

void CacheFolder::prune(const std::string &extension, size_t most) const {
  // A descriptor of its own: the listing takes it.
  int copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = copy < 0 ? nullptr : fdopendir(copy);
  if (!listing) {
    if (copy >= 0)
      close(copy);
    return;
  }
  std::vector<std::pair<int64_t, std::string>> files;
  while (dirent *entry = readdir(listing)) {
    struct stat status;
    if (StringRef(entry->d_name).ends_with(extension) &&
        fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
      files.push_back({int64_t(status.st_mtim.tv_sec), entry->d_name});
  }
  closedir(listing);
  if (files.size() <= most)
    return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() - most * 3 / 4; ++i)
    unlinkat(descriptor, files[i].second.c_str(), 0);
}
