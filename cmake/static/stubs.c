// Functions that archives ask for and our programs never need.
#include <stddef.h>
#include <stdint.h>

// hwloc reads the memory type of NUMA nodes through udev where it is there; without it that
// attribute is missing and nothing else.
void* udev_new(void) { return NULL; }
void* udev_unref(void* udev) { return udev; }
void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name) {
  (void)udev, (void)subsystem, (void)name;
  return NULL;
}
void* udev_device_unref(void* device) { return device; }
const char* udev_device_get_property_value(void* device, const char* key) {
  (void)device, (void)key;
  return NULL;
}

// libssh can log in by Kerberos; we use keys. RFC 2744: GSS_S_FAILURE is 13 << 16.
void* GSS_C_NT_HOSTBASED_SERVICE = NULL;
void* GSS_C_NT_USER_NAME = NULL;
#define NO_GSSAPI(name) \
  uint32_t name(void) { return UINT32_C(13) << 16; }
NO_GSSAPI(gss_accept_sec_context)
NO_GSSAPI(gss_acquire_cred)
NO_GSSAPI(gss_add_oid_set_member)
NO_GSSAPI(gss_create_empty_oid_set)
NO_GSSAPI(gss_display_name)
NO_GSSAPI(gss_display_status)
NO_GSSAPI(gss_get_mic)
NO_GSSAPI(gss_import_name)
NO_GSSAPI(gss_indicate_mechs)
NO_GSSAPI(gss_init_sec_context)
NO_GSSAPI(gss_inquire_cred)
NO_GSSAPI(gss_inquire_cred_by_mech)
NO_GSSAPI(gss_release_buffer)
NO_GSSAPI(gss_release_cred)
NO_GSSAPI(gss_release_name)
NO_GSSAPI(gss_release_oid_set)
NO_GSSAPI(gss_test_oid_set_member)
NO_GSSAPI(gss_verify_mic)
