//! Who makes a request. Who may do what is decided in one place, too, for the day when there is more to decide.

use bowline_machinery::{GroupResource, Status};
use http::Method;

use crate::request::{ResourcePath, Target, Verb};

/// Somebody who makes requests.
///
/// Put one into the extensions of a request to make it in that name; requests without one, in process, are made by an
/// administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    groups: Vec<String>,
}

const ADMINS: &str = "system:masters";
const ANONYMOUS: &str = "system:anonymous";

impl User {
    /// Somebody with these groups.
    #[must_use]
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().collect() }
    }

    /// An administrator, who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new("admin", [ADMINS.to_owned(), "system:authenticated".to_owned()])
    }

    /// Somebody who did not say who they are: they see health and version.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, ["system:unauthenticated".to_owned()])
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Everybody who is known may do everything; there are no roles yet.
    fn is_known(&self) -> bool {
        self.name != ANONYMOUS
    }

    pub(crate) fn authorize(&self, path: &ResourcePath, method: &Method, watch: bool) -> Result<(), Status> {
        if self.is_known() {
            return Ok(());
        }
        let verb = Verb::of(method, path, watch).map_or("", Verb::as_str);
        let resource = GroupResource::new(&path.group, &path.resource);
        let name = path.name.as_deref().unwrap_or_default();
        let scope = match &path.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let below = path.subresource.as_ref().map_or_else(String::new, |below| format!("/{below}"));
        let why = format!(
            "User {:?} cannot {verb} resource \"{}{below}\" in API group {:?} {scope}",
            self.name, path.resource, path.group
        );
        Err(Status::forbidden(&resource, name, &why))
    }

    pub(crate) fn authorize_path(&self, target: &Target) -> Result<(), Status> {
        let open = matches!(target, Target::Health { .. } | Target::Version);
        if open || self.is_known() {
            return Ok(());
        }
        let path = match target {
            Target::CoreVersions => "/api".to_owned(),
            Target::Groups => "/apis".to_owned(),
            Target::Group(group) => format!("/apis/{group}"),
            Target::GroupVersion { group, version } if group.is_empty() => format!("/api/{version}"),
            Target::GroupVersion { group, version } => format!("/apis/{group}/{version}"),
            _ => "/".to_owned(),
        };
        let why = format!("User {:?} cannot get path {path:?}", self.name);
        let mut status = Status::failure(403, "Forbidden", format!("forbidden: {why}"));
        status.details = Some(bowline_machinery::StatusDetails::default());
        Err(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_does_not_say_who_they_are_sees_health_and_version_only() {
        let nobody = User::anonymous();
        assert_eq!(nobody.authorize_path(&Target::Version), Ok(()));
        assert_eq!(nobody.authorize_path(&Target::Groups).map_err(|error| error.code), Err(403));
        let Target::Resource(path) = Target::of("/api/v1/namespaces/default/configmaps") else {
            panic!("it is a resource");
        };
        let error = nobody.authorize(&path, &Method::GET, false).expect_err("it is forbidden");
        assert_eq!(
            error.message,
            "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" \
             in the namespace \"default\""
        );
        assert_eq!(User::admin().authorize(&path, &Method::GET, false), Ok(()));
    }
}
