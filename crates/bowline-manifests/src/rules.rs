//! RBAC rules from permissions: merged, without repetitions, in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use bowline_runtime::Permission;
use serde_json::{Value, json};

/// A rule of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) group: String,
    pub(crate) resources: BTreeSet<String>,
    /// Names of the objects; empty for all.
    pub(crate) names: BTreeSet<String>,
    pub(crate) verbs: BTreeSet<String>,
    /// The declarations that it follows from.
    pub(crate) reasons: BTreeSet<String>,
}

/// The permissions for one role, by resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(BTreeMap<Target, Grant>);

/// Objects that verbs apply to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    resource: String,
    names: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Grant {
    verbs: BTreeSet<String>,
    reasons: BTreeSet<String>,
}

impl Rule {
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

impl Rules {
    pub(crate) fn add(&mut self, permission: &Permission) {
        // RBAC refuses a rule without verbs.
        if permission.verbs.is_empty() {
            return;
        }
        let target = Target {
            group: permission.group.clone(),
            resource: permission.resource.clone(),
            names: permission.names.clone(),
        };
        let grant = self.0.entry(target).or_default();
        grant.verbs.extend(permission.verbs.iter().cloned());
        if !permission.reason.is_empty() {
            grant.reasons.insert(permission.reason.clone());
        }
    }

    /// Removes the verbs that a role of the same account allows already, in all namespaces.
    pub(crate) fn without(mut self, wider: &Self) -> Self {
        self.retain(|target, verb| !wider.allows(target, verb));
        self
    }

    /// Rules without verbs that another rule allows, with the resources that have the same verbs and names in one rule.
    pub(crate) fn grouped(mut self) -> Vec<Rule> {
        let all = Self(self.0.iter().filter(|(target, _)| target.names.is_empty()).map(cloned).collect());
        self.retain(|target, verb| target.names.is_empty() || !all.allows(target, verb));
        let mut rules: BTreeMap<_, Rule> = BTreeMap::new();
        for (Target { group, resource, names }, Grant { mut verbs, reasons }) in self.0 {
            if verbs.contains("*") {
                verbs.retain(|verb| verb == "*");
            }
            let rule = rules.entry((group.clone(), names.clone(), verbs.clone())).or_insert_with(|| Rule {
                group,
                resources: BTreeSet::new(),
                names,
                verbs,
                reasons: BTreeSet::new(),
            });
            rule.resources.insert(resource);
            rule.reasons.extend(reasons);
        }
        // By group and resource: `Rule` is ordered so.
        rules.into_values().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn retain(&mut self, mut keep: impl FnMut(&Target, &str) -> bool) {
        self.0.retain(|target, grant| {
            grant.verbs.retain(|verb| keep(target, verb));
            !grant.verbs.is_empty()
        });
    }

    fn allows(&self, target: &Target, verb: &str) -> bool {
        let is_same = |own: &str, other: &str| own == "*" || own == other;
        self.0.iter().any(|(own, grant)| {
            is_same(&own.group, &target.group)
                && is_same(&own.resource, &target.resource)
                && (own.names.is_empty() || !target.names.is_empty() && own.names.is_superset(&target.names))
                && grant.verbs.iter().any(|own| is_same(own, verb))
        })
    }
}

impl<'a> FromIterator<&'a Permission> for Rules {
    fn from_iter<I: IntoIterator<Item = &'a Permission>>(permissions: I) -> Self {
        let mut rules = Self::default();
        permissions.into_iter().for_each(|permission| rules.add(permission));
        rules
    }
}

fn cloned((target, grant): (&Target, &Grant)) -> (Target, Grant) {
    (target.clone(), grant.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(group: &str, resource: &str, verbs: &str, names: &str) -> Permission {
        Permission::to_resource(group, resource, true, [])
            .verbs(verbs.split_whitespace())
            .named(names.split_whitespace())
    }

    /// Rules in short: `apps deployments,statefulsets (name): get,list`.
    fn short(rules: &[Rule]) -> Vec<String> {
        let join = |texts: &BTreeSet<String>| texts.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let write = |rule: &Rule| {
            let names =
                if rule.names.is_empty() { String::new() } else { format!(" ({})", join(&rule.names)) };
            format!("{} {}{names}: {}", rule.group, join(&rule.resources), join(&rule.verbs))
        };
        rules.iter().map(write).collect()
    }

    fn grouped(permissions: &[Permission]) -> Vec<String> {
        short(&permissions.iter().collect::<Rules>().grouped())
    }

    #[test]
    fn verbs_of_one_resource_are_united() {
        let rules = grouped(&[
            permission("apps", "deployments", "watch list", ""),
            permission("apps", "deployments", "list create", ""),
            permission("", "deployments", "get", ""),
        ]);
        assert_eq!(rules, [" deployments: get", "apps deployments: create,list,watch"]);
    }

    #[test]
    fn resources_with_the_same_verbs_share_a_rule() {
        let rules = grouped(&[
            permission("", "secrets", "get list", ""),
            permission("", "configmaps", "list get", ""),
            permission("", "pods", "get", ""),
            permission("apps", "deployments", "get list", ""),
        ]);
        assert_eq!(rules, [" configmaps,secrets: get,list", " pods: get", "apps deployments: get,list"]);
    }

    #[test]
    fn rules_for_names_have_only_verbs_that_no_other_rule_allows() {
        let rules = grouped(&[
            permission("", "secrets", "get list", ""),
            permission("", "secrets", "get delete", "token"),
            permission("", "configmaps", "get", "a"),
            permission("", "configmaps", "update", "a"),
            permission("", "configmaps", "get", "b"),
        ]);
        assert_eq!(
            rules,
            [
                " configmaps (a): get,update",
                " configmaps (b): get",
                " secrets: get,list",
                " secrets (token): delete"
            ]
        );
    }

    #[test]
    fn a_star_stands_for_every_verb() {
        assert_eq!(grouped(&[permission("", "pods", "get * list", "")]), [" pods: *"]);
        assert_eq!(grouped(&[permission("", "pods", "", "")]), [""; 0]);
        let all = [permission("", "*", "*", ""), permission("", "pods", "get", "a")];
        assert_eq!(grouped(&all), [" *: *"]);
    }

    #[test]
    fn a_role_repeats_nothing_of_a_wider_one() {
        let wider = [permission("", "secrets", "get", ""), permission("", "pods", "get", "a b")];
        let narrow = [
            permission("", "secrets", "get", "token"),
            permission("", "secrets", "get list", ""),
            permission("", "pods", "get delete", "a"),
            permission("", "pods", "get", ""),
        ];
        let rules = narrow.iter().collect::<Rules>().without(&wider.iter().collect());
        assert_eq!(short(&rules.grouped()), [" pods: get", " pods (a): delete", " secrets: list"]);
    }

    #[test]
    fn reasons_are_kept_in_order_and_once() {
        let mut permissions = vec![permission("", "pods", "get", ""); 3];
        for (permission, reason) in permissions.iter_mut().zip(["b", "a", "b"]) {
            permission.reason = reason.to_owned();
        }
        let [rule] = &permissions.iter().collect::<Rules>().grouped()[..] else { panic!("one rule") };
        assert!(rule.reasons.iter().eq(["a", "b"]));
    }
}
