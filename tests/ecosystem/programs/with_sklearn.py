"""Learning by scikit-learn."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mean_squared_error, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler


def _samples(rng, size):
    features = rng.standard_normal((size // 20, 10))
    target = features[:, 0] ** 2 + features[:, 1] + 0.1 * rng.standard_normal(len(features))
    return features, target


def components(rng, size):
    features, _ = _samples(rng, size)
    scaled = StandardScaler().fit_transform(features)
    analysis = PCA(3, svd_solver="full").fit(scaled)
    return np.abs(analysis.transform(scaled)), analysis.explained_variance_ratio_


def clusters(rng, size):
    features, _ = _samples(rng, size)
    found = KMeans(4, n_init=2, random_state=0).fit(features)
    return found.labels_, found.cluster_centers_, found.inertia_


def linear(rng, size):
    features, target = _samples(rng, size)
    model = make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge(1.0))
    predicted = model.fit(features, target).predict(features)
    classes = (target > target.mean()).astype(int)
    logistic = LogisticRegression(tol=1e-8, max_iter=1000).fit(features, classes)
    chance = logistic.predict_proba(features)[:, 1]
    scores = cross_val_score(Ridge(1.0), features, target, cv=3)
    return predicted, mean_squared_error(target, predicted), roc_auc_score(classes, chance), scores


def trees(rng, size):
    features, target = _samples(rng, min(size, 20000))
    classes = (target > 1.0).astype(int)
    forest = RandomForestClassifier(10, random_state=0).fit(features, classes)
    boosted = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(features, target)
    near = KNeighborsClassifier(3).fit(features, classes)
    return forest.predict_proba(features), boosted.predict(features), near.predict(features)
