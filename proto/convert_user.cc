// see convert_user.h
