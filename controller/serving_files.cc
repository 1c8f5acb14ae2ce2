#include "controller/serving_files.h"

#include <filesystem>
#include <system_error>

#include "common/pki.h"

namespace launch::controller {

Result<ServingFiles> PublishServing(FileSystem& files, const std::string& state_dir,
                                    const Credentials& credentials) {
  namespace fs = std::filesystem;
  LAUNCH_RETURN_IF_ERROR(CheckPair(credentials.key, credentials.certificate));
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts,
                          ReadCertificate(credentials.certificate.pem));
  const std::string tls = state_dir + "/tls";
  const std::string current = tls + "/current";
  const std::string fresh = tls + "/" + facts.serial;
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(tls));
  LAUNCH_RETURN_IF_ERROR(files.MakeDirs(fresh));
  LAUNCH_RETURN_IF_ERROR(files.Write(fresh + "/ca.pem", credentials.ca.pem));
  LAUNCH_RETURN_IF_ERROR(files.Write(fresh + "/key.pem", credentials.key.private_pem));
  LAUNCH_RETURN_IF_ERROR(files.Write(fresh + "/cert.pem", credentials.certificate.pem));
  std::error_code error;
  fs::remove(tls + "/current.new", error);
  fs::create_directory_symlink(facts.serial, tls + "/current.new", error);
  if (error) return FailErrno("symlink " + tls + "/current.new", error.value());
  fs::rename(tls + "/current.new", current, error);
  if (error) return FailErrno("rename to " + current, error.value());
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(tls));
  for (const std::string& name : names) {
    if (name == facts.serial || name == "current") continue;
    LAUNCH_RETURN_IF_ERROR(files.RemoveTree(tls + "/" + name));
  }
  return ServingFiles{current + "/key.pem", current + "/cert.pem", current + "/ca.pem"};
}

}  // namespace launch::controller
