// The header that host programs include: the emulated runtime behind ACL's names.
#ifndef HAJAX_ACL_ACL_H_
#define HAJAX_ACL_ACL_H_

#include "acl_base.h"
#include "acl_launch.h"
#include "acl_rt.h"

#endif
