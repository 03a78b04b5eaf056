//! Users and groups.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::MERGE_PATCH;
use crate::client::transport::Request;
use crate::model::{Group, NewGroup, NewUser, Operation, User, UserPatch};
use crate::path::encoded;

impl Client {
    /// All users, by name.
    pub fn users(&self) -> Result<Vec<User>> {
        self.all(&Request::get("/v1/users"))
    }

    /// A user.
    pub fn user(&self, name: &str) -> Result<Tagged<User>> {
        self.tagged(Request::get(path("users", name)))
    }

    /// Makes a user.
    pub fn create_user(&self, new: &NewUser) -> Result<Created<User>> {
        self.made(Request::post("/v1/users"), new)
    }

    /// Changes a user.
    pub fn change_user(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &UserPatch,
    ) -> Result<Tagged<User>> {
        let request = options.apply(Request::patch(path("users", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Removes a user.
    pub fn delete_user(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("users", name))))
    }

    /// All groups, by name.
    pub fn groups(&self) -> Result<Vec<Group>> {
        self.all(&Request::get("/v1/groups"))
    }

    /// A group.
    pub fn group(&self, name: &str) -> Result<Tagged<Group>> {
        self.tagged(Request::get(path("groups", name)))
    }

    /// Makes a group.
    pub fn create_group(&self, new: &NewGroup) -> Result<Created<Group>> {
        self.made(Request::post("/v1/groups"), new)
    }

    /// Puts a user into a group.
    pub fn add_member(&self, options: &ChangeOptions, group: &str, user: &str) -> Result<Tagged<Group>> {
        self.tagged(options.apply(Request::put(member(group, user))))
    }

    /// Takes a user out of a group.
    pub fn remove_member(&self, options: &ChangeOptions, group: &str, user: &str) -> Result<Tagged<Group>> {
        self.tagged(options.apply(Request::delete(member(group, user))))
    }

    /// Removes a group.
    pub fn delete_group(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("groups", name))))
    }
}

fn member(group: &str, user: &str) -> String {
    format!("{}/members/{}", path("groups", group), encoded(user))
}
